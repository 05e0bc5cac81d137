import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TRIGGERS } from "@holdfast/core/checkpoint";
import { parseLoopPath } from "@holdfast/formats/loop-document";
import { type FiledCheckpoint, planLoopFiles } from "./layout.ts";

const LOOP = "ralph-fix-tests-a1b2c3d4";
const NOON = Date.parse("2026-02-02T12:00:00Z");

function some(given: Partial<FiledCheckpoint> & { readonly sequence: number }): FiledCheckpoint {
  return {
    iteration: 1,
    createdAt: new Date(NOON + given.sequence * 1000).toISOString(),
    trigger: "stage",
    tags: [],
    quarantined: false,
    ...given,
  };
}

const namesOf = (checkpoints: readonly FiledCheckpoint[], loopId: string | null = LOOP) =>
  Object.fromEntries(
    planLoopFiles({ loopId, workflowId: "run-1", checkpoints }).map(({ checkpoint, path }) => [
      path.split("/").at(-1),
      checkpoint.sequence,
    ]),
  );

describe("in the directory of a loop", () => {
  test("the newest of an iteration has its name", () => {
    const checkpoints = [0, 1, 1, 1, 2, 2].map((iteration, at) => some({ sequence: at + 1, iteration }));
    expect(namesOf(checkpoints)).toEqual({
      "iteration-000.json.gz": 1,
      "iteration-001.json.gz": 4,
      "iteration-002.json.gz": 6,
    });
  });

  test.each(["manual", "before_risky", "error_recovery"] as const)(
    "%s in the same iteration takes no other's place, nor another its",
    (trigger) => {
      const asked = some({ sequence: 2, trigger });
      expect(namesOf([some({ sequence: 1 }), asked])).toEqual({ "iteration-001.json.gz": 2 });
      expect(namesOf([some({ sequence: 1 }), asked, some({ sequence: 3 })])).toEqual({
        [`checkpoint-1-${NOON + 2000}.json.gz`]: 2,
        "iteration-001.json.gz": 3,
      });
    },
  );

  test("two of one millisecond have two names", () => {
    const createdAt = new Date(NOON).toISOString();
    const asked = [1, 2, 3].map((sequence) => some({ sequence, trigger: "manual", createdAt }));
    expect(namesOf([...asked, some({ sequence: 4 })])).toEqual({
      [`checkpoint-1-${NOON}.json.gz`]: 1,
      [`checkpoint-1-${NOON + 1}.json.gz`]: 2,
      [`checkpoint-1-${NOON + 2}.json.gz`]: 3,
      "iteration-001.json.gz": 4,
    });
  });

  test("a run that went back leaves what came after, under names of their own", () => {
    const forth = [1, 2, 3].map((iteration) => some({ sequence: iteration, iteration }));
    const back = some({ sequence: 4, iteration: 1, trigger: "restore" });
    expect(namesOf([...forth, back])).toEqual({
      [`checkpoint-2-${NOON + 2000}.json.gz`]: 2,
      [`checkpoint-3-${NOON + 3000}.json.gz`]: 3,
      "iteration-001.json.gz": 4,
    });
  });

  test("what is quarantined as damaged is no file", () => {
    expect(namesOf([some({ sequence: 1 }), some({ sequence: 2, iteration: 2, quarantined: true })])).toEqual({
      "iteration-001.json.gz": 1,
    });
  });
});

test("without a loop id every checkpoint is a file of the legacy layout", () => {
  const createdAt = "2026-01-25T15:00:00.000Z";
  const checkpoints = [
    some({ sequence: 1, createdAt, trigger: "iteration" }),
    some({ sequence: 2, createdAt, trigger: "manual" }),
    some({ sequence: 3, createdAt, trigger: "manual" }),
  ];
  expect(namesOf(checkpoints, null)).toEqual({
    "run-1-2026-01-25T15-00-00Z-iteration.json.gz": 1,
    "run-1-2026-01-25T15-00-00Z-manual.json.gz": 2,
    "run-1-2026-01-25T15-00-00.001Z-manual.json.gz": 3,
  });
});

const histories = fc
  .array(
    fc.record({
      iteration: fc.nat(5),
      trigger: fc.constantFrom(...TRIGGERS),
      tags: fc.constantFrom<readonly string[]>([], [], ["kept"]),
      quarantined: fc.constantFrom(false, false, false, true),
      createdAt: fc.nat(3).map((ms) => new Date(NOON + ms).toISOString()),
    }),
    { maxLength: 30 },
  )
  .map((all) => all.map((one, at) => some({ ...one, sequence: at + 1 })));

describe("for every history", () => {
  test("no two share a name, every name is read back, and the highest iteration is the newest checkpoint", () => {
    fc.assert(
      fc.property(histories, (checkpoints) => {
        const files = planLoopFiles({ loopId: LOOP, workflowId: "w", checkpoints });
        expect(new Set(files.map(({ path }) => path)).size).toBe(files.length);
        expect(new Set(files.map(({ checkpoint }) => checkpoint)).size).toBe(files.length);
        for (const { path, checkpoint } of files)
          expect(parseLoopPath(path)).toMatchObject({ loopId: LOOP, iteration: checkpoint.iteration });
        const whole = checkpoints.filter(({ quarantined }) => !quarantined);
        expect(files.at(-1)?.checkpoint).toBe(whole.at(-1));
        const highest = files
          .filter(({ path }) => path.includes("/iteration-"))
          .toSorted((a, b) => (a.path < b.path ? -1 : 1));
        expect(highest.at(-1)?.checkpoint).toBe(whole.at(-1));
      }),
    );
  });

  test("what was asked for, protects or has a tag is always a file", () => {
    fc.assert(
      fc.property(histories, fc.constantFrom(LOOP, null), (checkpoints, loopId) => {
        const filed = new Set(
          planLoopFiles({ loopId, workflowId: "w", checkpoints }).map(({ checkpoint }) => checkpoint),
        );
        for (const one of checkpoints) {
          if (one.quarantined) expect(filed.has(one)).toBe(false);
          else if (one.tags.length > 0 || one.trigger === "manual" || one.trigger === "before_risky")
            expect(filed.has(one)).toBe(true);
        }
      }),
    );
  });

  test("the order in which they are given decides nothing", () => {
    fc.assert(
      fc.property(histories, fc.constantFrom(LOOP, null), (checkpoints, loopId) => {
        const plan = planLoopFiles({ loopId, workflowId: "w", checkpoints });
        expect(planLoopFiles({ loopId, workflowId: "w", checkpoints: checkpoints.toReversed() })).toEqual(plan);
      }),
    );
  });
});

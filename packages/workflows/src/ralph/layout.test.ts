import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TRIGGERS } from "@holdfast/core/checkpoint";
import { parseLoopPath } from "@holdfast/formats/loop-document";
import { type FiledCheckpoint, planLoopFiles } from "./layout.ts";
import { endedIteration, filedIteration } from "./loop-checkpoint.ts";

const LOOP = "ralph-fix-tests-a1b2c3d4";
const NOON = Date.parse("2026-02-02T12:00:00Z");

function some(given: Partial<FiledCheckpoint> & { readonly sequence: number }): FiledCheckpoint {
  return {
    iteration: 1,
    stage: "iterate",
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
  /** Begin, two iterations of three stages, and where the second one leads to. */
  const loop = (end: string) => [
    some({ sequence: 1, iteration: 0, stage: "begin" }),
    some({ sequence: 2 }),
    some({ sequence: 3, stage: "verify" }),
    some({ sequence: 4, stage: "reflect" }),
    some({ sequence: 5, iteration: 2, trigger: "iteration" }),
    some({ sequence: 6, iteration: 2, stage: "verify" }),
    some({ sequence: 7, iteration: 2, stage: "reflect" }),
    some({ sequence: 8, iteration: end === "iterate" ? 3 : 2, stage: end, trigger: "iteration" }),
    some({ sequence: 9, iteration: end === "iterate" ? 3 : 2, stage: end === "iterate" ? "verify" : "done" }),
  ];
  test.each(["iterate", "publish", "rollback", "limit", "fatal"])(
    "the end of an iteration has its name, also where %s follows; next to it is only the newest checkpoint",
    (end) => {
      const all = loop(end);
      expect(namesOf(all.slice(0, 1))).toEqual({ [`checkpoint-0-${NOON + 1000}.json.gz`]: 1 });
      expect(namesOf(all.slice(0, 4))).toEqual({ [`checkpoint-1-${NOON + 4000}.json.gz`]: 4 });
      expect(namesOf(all.slice(0, 5))).toEqual({ "iteration-001.json.gz": 5 });
      expect(namesOf(all.slice(0, 6))).toEqual({
        [`checkpoint-2-${NOON + 6000}.json.gz`]: 6,
        "iteration-001.json.gz": 5,
      });
      expect(namesOf(all)).toEqual({
        "iteration-001.json.gz": 5,
        "iteration-002.json.gz": 8,
        [`checkpoint-${end === "iterate" ? 3 : 2}-${NOON + 9000}.json.gz`]: 9,
      });
    },
  );

  test.each(["manual", "before_risky", "error_recovery"] as const)(
    "%s in the same iteration replaces no other file, and no other replaces it",
    (trigger) => {
      const asked = some({ sequence: 2, trigger });
      const end = some({ sequence: 3, iteration: 2, trigger: "iteration" });
      const beside = `checkpoint-1-${NOON + 2000}.json.gz`;
      expect(namesOf([some({ sequence: 1 }), asked])).toEqual({ [beside]: 2 });
      expect(namesOf([some({ sequence: 1 }), asked, end])).toEqual({ [beside]: 2, "iteration-001.json.gz": 3 });
    },
  );

  test("two of one millisecond have two names", () => {
    const createdAt = new Date(NOON).toISOString();
    const asked = [1, 2, 3].map((sequence) => some({ sequence, trigger: "manual", createdAt }));
    expect(namesOf([...asked, some({ sequence: 4, iteration: 2, trigger: "iteration" })])).toEqual({
      [`checkpoint-1-${NOON}.json.gz`]: 1,
      [`checkpoint-1-${NOON + 1}.json.gz`]: 2,
      [`checkpoint-1-${NOON + 2}.json.gz`]: 3,
      "iteration-001.json.gz": 4,
    });
  });

  test("a run that was restored keeps the later files, under their own names", () => {
    const forth = [1, 2, 3].map((number) => some({ sequence: number, iteration: number + 1, trigger: "iteration" }));
    const left = {
      [`checkpoint-2-${NOON + 2000}.json.gz`]: 2,
      [`checkpoint-3-${NOON + 3000}.json.gz`]: 3,
      "iteration-001.json.gz": 1,
    };
    // Back into the middle of iteration 2: that one and those after it are undone.
    const back = some({ sequence: 4, iteration: 2, stage: "verify", trigger: "restore" });
    expect(namesOf([...forth, back])).toEqual({ ...left, [`checkpoint-2-${NOON + 4000}.json.gz`]: 4 });
    const again = some({ sequence: 5, iteration: 3, trigger: "iteration" });
    expect(namesOf([...forth, back, again])).toEqual({ ...left, "iteration-002.json.gz": 5 });
  });

  test("a quarantined checkpoint is not a file", () => {
    const end = some({ sequence: 1, iteration: 2, trigger: "iteration" });
    const damaged = some({ sequence: 2, iteration: 3, trigger: "iteration", quarantined: true });
    expect(namesOf([end, damaged])).toEqual({ "iteration-001.json.gz": 1 });
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
      stage: fc.constantFrom("begin", "iterate", "verify", "reflect", "publish", "done"),
      trigger: fc.constantFrom(...TRIGGERS),
      tags: fc.constantFrom<readonly string[]>([], [], ["kept"]),
      quarantined: fc.constantFrom(false, false, false, true),
      createdAt: fc.nat(3).map((ms) => new Date(NOON + ms).toISOString()),
    }),
    { maxLength: 30 },
  )
  .map((all) => all.map((one, at) => some({ ...one, sequence: at + 1 })));

describe("for every history", () => {
  test("no two share a name, every name is parsed back, the newest exists, and iterations end at their checkpoint", () => {
    fc.assert(
      fc.property(histories, (checkpoints) => {
        const files = planLoopFiles({ loopId: LOOP, workflowId: "w", checkpoints });
        expect(new Set(files.map(({ path }) => path)).size).toBe(files.length);
        expect(new Set(files.map(({ checkpoint }) => checkpoint)).size).toBe(files.length);
        for (const { path, checkpoint } of files)
          expect(parseLoopPath(path)).toMatchObject({ loopId: LOOP, iteration: filedIteration(checkpoint) });
        const whole = checkpoints.filter(({ quarantined }) => !quarantined);
        const newest = whole.at(-1);
        if (newest === undefined) return;
        expect(files.map(({ checkpoint }) => checkpoint)).toContain(newest);
        const ends = files.filter(({ path }) => path.includes("/iteration-")).map(({ checkpoint }) => checkpoint);
        const numbers = ends.map(filedIteration);
        expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
        expect(ends.map(({ sequence }) => sequence)).toEqual(
          ends.map(({ sequence }) => sequence).toSorted((a, b) => a - b),
        );
        expect(numbers.every((number) => number <= endedIteration(newest))).toBe(true);
        for (const one of ends) expect(one.trigger).toBe("iteration");
        // No end of an iteration is lost.
        const filed = new Set(files.map(({ checkpoint }) => checkpoint));
        for (const one of whole) if (one.trigger === "iteration") expect(filed.has(one)).toBe(true);
      }),
    );
  });

  test("manual, protecting and tagged checkpoints are always files", () => {
    fc.assert(
      fc.property(histories, fc.constantFrom(LOOP, null), (checkpoints, loopId) => {
        const filed = new Set(
          planLoopFiles({ loopId, workflowId: "w", checkpoints }).map(({ checkpoint }) => checkpoint),
        );
        for (const one of checkpoints) {
          if (one.quarantined) expect(filed.has(one)).toBe(false);
          else if (one.tags.length > 0 || ["manual", "before_risky", "before_external"].includes(one.trigger))
            expect(filed.has(one)).toBe(true);
        }
      }),
    );
  });

  test("the order of the input decides nothing", () => {
    fc.assert(
      fc.property(histories, fc.constantFrom(LOOP, null), (checkpoints, loopId) => {
        const plan = planLoopFiles({ loopId, workflowId: "w", checkpoints });
        expect(planLoopFiles({ loopId, workflowId: "w", checkpoints: checkpoints.toReversed() })).toEqual(plan);
      }),
    );
  });
});

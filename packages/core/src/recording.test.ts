import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EntryKind, JournalEntry } from "./journal.ts";
import type { Json, JsonObject } from "./json.ts";
import {
  type Outcome,
  callKey,
  compareRuns,
  cutValues,
  divergenceText,
  firstChange,
  readOutcomes,
  readRecording,
  withoutKeys,
} from "./recording.ts";
import { canonicalJson, capture } from "./values.ts";

describe("compare runs", () => {
  const outcome: fc.Arbitrary<Outcome> = fc.record({
    entry: fc.nat(1000),
    stageAttempt: fc.nat(50),
    stage: fc.constantFrom("work", "check"),
    iteration: fc.nat(30),
    step: fc.constantFrom("agent", "verify", null),
    kind: fc.constantFrom("agent", "check", "stage"),
    came: fc.record({ text: fc.string({ maxLength: 3 }) }),
    tree: fc.constantFrom("t1", "t2", null),
  });
  const outcomes = fc.array(outcome, { maxLength: 8 });

  describe("two runs", () => {
    test("with the same work do not diverge, whatever their entry numbers are", () => {
      fc.assert(
        fc.property(outcomes, fc.nat(), (a, shift) => {
          const b = a.map((one) => ({ ...one, entry: one.entry + shift, stageAttempt: one.stageAttempt + shift }));
          expect(compareRuns(a, b)).toEqual({ same: a.length, step: null, files: null, verdict: null });
        }),
      );
    });

    test("diverge at the first outcome that differs", () => {
      fc.assert(
        fc.property(outcomes, outcomes, outcome, (shared, rest, other) => {
          const a = [...shared, other, ...rest];
          const b = [...shared, { ...other, came: { text: "quite another" } }, ...rest];
          const { same, step } = compareRuns(a, b);
          expect(same).toBe(shared.length);
          expect(step).toMatchObject({
            a: other,
            field: "/came/text",
            expected: other.came["text"],
            actual: "quite another",
          });
        }),
      );
    });

    test("that differ only in their ids, nonces, commits and times do not diverge", () => {
      const of = (text: string): Outcome => ({
        entry: 1,
        stageAttempt: 2,
        stage: "impl",
        iteration: 1,
        step: "agent",
        kind: "agent",
        came: { text, collected: { "finalize.txt": text } },
        tree: "t",
      });
      const line = (run: string, nonce: string, commit: string, at: string): string =>
        `Issue 1 resolved (iteration 1, ${run}.2) <data-${nonce}> ${commit} at ${at}`;
      const a = of(line("issue-1", "0123456789abcdef", "a".repeat(40), "2026-01-01T00:00:00Z"));
      const b = of(line("issue-1-x", "fedcba9876543210", "b".repeat(40), "2026-02-03T04:05:06.789Z"));
      expect(compareRuns([a], [b], ["issue-1", "issue-1-x"]).step).toBeNull();
      expect(compareRuns([a], [b]).step).toMatchObject({ field: "/came/collected/finalize.txt" });
      const other = of(line("issue-12", "0123456789abcdef", "a".repeat(40), "2026-01-01T00:00:00Z"));
      expect(compareRuns([a], [other], ["issue-1", "issue-1-x"]).step).not.toBeNull();
    });

    test("swapped, give the same answer with swapped sides", () => {
      fc.assert(
        fc.property(outcomes, outcomes, (a, b) => {
          const [there, back] = [compareRuns(a, b), compareRuns(b, a)];
          expect(back.same).toBe(there.same);
          for (const sort of ["step", "files", "verdict"] as const) {
            expect(back[sort]?.a ?? null).toEqual(there[sort]?.b ?? null);
            expect(back[sort]?.field).toBe(there[sort]?.field);
          }
        }),
      );
    });
  });

  test("outcomes are read from a journal without times, ids and folders", () => {
    const body = (of: object) => ({ stageAttempt: 1, ...of });
    const amounts = { tokens: 0, microUsd: 0, milliseconds: 0 };
    const read = (seconds: number, tree: string) =>
      readOutcomes([
        { entry: 1, kind: "stage.entered", body: body({ stage: "work", iteration: 2 }) },
        { entry: 2, kind: "step.finished", body: body({ step: "time", result: `at ${seconds}`, spent: null }) },
        { entry: 3, kind: "step.started", body: body({ step: "agent", files: true, estimate: amounts }) },
        {
          entry: 4,
          kind: "step.finished",
          body: body({
            step: "agent",
            result: { outcome: "completed", text: "did", milliseconds: seconds },
            spent: amounts,
          }),
        },
        { entry: 5, kind: "checkpoint", body: { tree } },
        {
          entry: 6,
          kind: "step.finished",
          body: body({ step: "check", result: { kind: "exited", code: 1 }, spent: null }),
        },
        { entry: 7, kind: "stage.ended", body: body({ stage: "work", event: "failed", score: 40 }) },
        { entry: 8, kind: "checkpoint", body: { tree } },
      ]);
    expect(read(1, "t").map(({ kind, step, tree }) => [kind, step, tree])).toEqual([
      ["agent", "agent", "t"],
      ["check", "check", "t"],
      ["stage", null, "t"],
    ]);
    expect(compareRuns(read(1, "t"), read(2, "t")).step).toBeNull();
    expect(compareRuns(read(1, "t"), read(1, "u"))).toMatchObject({
      step: null,
      files: { expected: "t", actual: "u" },
    });
  });
});

describe("divergence", () => {
  test("long values are cut so that the first difference is visible", () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 500 }),
        fc.string({ maxLength: 500 }),
        fc.integer({ min: 16, max: 80 }),
        (head, tail, width) => {
          const [a, b] = cutValues(`${head}A${tail}`, `${head}B${tail}`, width);
          expect(a).not.toBe(b);
          for (const text of [a, b]) expect(text.length).toBeLessThanOrEqual(Math.max(width, 0) + 2);
        },
      ),
    );
  });

  test("one line gives the location, the kind and both values", () => {
    const where = { stage: "work", iteration: 4, stageAttempt: 9, step: "agent", checkpoint: null, entry: 51 };
    expect(divergenceText({ where, what: "call", field: "model", expected: "a", actual: null })).toBe(
      'iteration 4, stage work, step agent, entry 51: the agent\'s model: recorded "a", now nothing',
    );
  });
});

describe("first change", () => {
  const json = fc.jsonValue({ maxDepth: 4 }).map((value) => capture(value));

  test("values differ exactly when their canonical JSON does", () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(firstChange(a, b) === null).toBe(canonicalJson(a) === canonicalJson(b));
        expect(firstChange(a, capture(structuredClone(a)))).toBeNull();
      }),
    );
  });

  test("swapping the sides swaps the values", () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        const [there, back] = [firstChange(a, b), firstChange(b, a)];
        expect(back?.field).toBe(there?.field);
        expect([back?.expected, back?.actual]).toEqual([there?.actual, there?.expected]);
      }),
    );
  });

  test("one changed leaf is named by its path", () => {
    const key = fc.stringMatching(/^[a-z]{1,5}$/);
    fc.assert(
      fc.property(fc.array(key, { minLength: 1, maxLength: 5 }), fc.integer(), (path, value) => {
        const nest = (leaf: Json): Json => path.reduceRight<Json>((inner, name) => ({ [name]: inner, ZZ: 1 }), leaf);
        const change = firstChange(nest(value), nest(value + 1));
        expect(change).toEqual({ field: `/${path.join("/")}`, expected: value, actual: value + 1 });
      }),
    );
  });

  test("keys are removed at every depth, and nothing else", () => {
    expect(withoutKeys({ a: [{ at: 1, b: 2 }], at: 3, c: { at: null } }, new Set(["at"]))).toEqual({
      a: [{ b: 2 }],
      c: {},
    });
  });
});

describe("recording", () => {
  const journal = (entries: readonly (readonly [EntryKind, JsonObject])[]): readonly JournalEntry[] =>
    entries.map(([kind, body], index) => ({
      run: "r",
      entry: index + 1,
      kind,
      at: new Date(index * 1000).toISOString(),
      epoch: 1,
      body,
      digest: "",
      hash: "",
    }));

  const amounts = { tokens: 1, microUsd: 2, milliseconds: 0 };
  const started = (step: string, agent: boolean) =>
    ["step.started", { stageAttempt: 1, step, files: true, estimate: agent ? amounts : null }] as const;
  const finished = (step: string, result: string) =>
    ["step.finished", { stageAttempt: 1, step, result, spent: amounts }] as const;
  const failed = (step: string) =>
    ["step.failed", { stageAttempt: 1, step, reason: "no", spent: amounts, code: "IO_FAILED" }] as const;
  const interrupted = (step: string) => ["step.interrupted", { stageAttempt: 1, step, spent: amounts }] as const;
  const triedAgain = (step: string) =>
    [
      "step.failed",
      { stageAttempt: 1, step, reason: "no", spent: amounts, verdict: { rule: "r", action: "retry", why: "" } },
    ] as const;
  const saved = (sequence: number, trigger: string, name: string | null) =>
    ["checkpoint", { sequence, trigger, name, stage: "work", iteration: 1 }] as const;

  describe("a record", () => {
    test("has every step that ended, in order, with the usage of its attempts", () => {
      const step = fc.record({ name: fc.constantFrom("a", "b", "c"), agent: fc.boolean(), tries: fc.nat(2) });
      fc.assert(
        fc.property(fc.array(step, { maxLength: 10 }), (steps) => {
          const entries = steps.flatMap(({ name, agent, tries }, nth) => [
            started(`${name}${nth}`, agent),
            ...Array.from({ length: agent ? tries : 0 }, (_, at) =>
              at === 0 ? interrupted(`${name}${nth}`) : triedAgain(`${name}${nth}`),
            ),
            finished(`${name}${nth}`, "r"),
            saved(nth + 1, "automatic", `${name}${nth}`),
          ]);
          const read = readRecording("r", journal(entries));
          expect(read.steps.map(({ step: name, checkpoint }) => [name, checkpoint])).toEqual(
            steps.map(({ name }, nth) => [`${name}${nth}`, nth + 1]),
          );
          expect(read.costs.map(({ step: name }) => name)).toEqual(
            steps.flatMap(({ name, agent, tries }, nth) => Array(agent ? tries + 1 : 1).fill(`${name}${nth}`)),
          );
          expect(read.checkpoints.every(({ isOwn }) => isOwn)).toBe(true);
        }),
      );
    });

    test("has what was held for attempts of unknown usage", () => {
      const none = { tokens: 0, microUsd: 0, milliseconds: 0 };
      const unknown = { ...none, unpriced: 1, uncounted: 1 };
      const held = { ...none, tokens: 9 };
      const read = readRecording(
        "r",
        journal([
          started("a", true),
          ["step.interrupted", { stageAttempt: 1, step: "a", spent: unknown }],
          ["step.finished", { stageAttempt: 1, step: "a", result: 1, spent: unknown }],
          started("b", true),
          ["step.finished", { stageAttempt: 1, step: "b", result: 1, spent: { ...none, unpriced: 1 } }],
          ["step.lost", { stageAttempt: 1, step: "c", spent: unknown, held }],
          started("d", true),
          finished("d", "x"),
        ]),
      );
      expect(read.costs.map((cost) => cost.held)).toEqual([amounts, null, { ...none, microUsd: 2 }, held, null]);
    });

    test("distinguishes a checkpoint of a step from one that a user took right after it", () => {
      const read = readRecording(
        "r",
        journal([
          ["step.finished", { stageAttempt: 1, step: "plain", result: 1, spent: null }],
          saved(1, "manual", "plain"),
          started("write", false),
          finished("write", "done"),
          saved(2, "automatic", "write"),
          ["stage.ended", { stageAttempt: 1, stage: "work", event: "x" }],
          ["stage.entered", { stageAttempt: 2, stage: "check", iteration: 1 }],
          saved(3, "stage", null),
          saved(4, "manual", null),
        ]),
      );
      expect(read.checkpoints.map(({ sequence, isOwn }) => [sequence, isOwn])).toEqual([
        [1, false],
        [2, true],
        [3, true],
        [4, false],
      ]);
      expect(read.steps.map(({ checkpoint }) => checkpoint)).toEqual([null, 2]);
      expect(read.ended).toEqual(new Map([[1, 6]]));
    });

    test("a plain step that failed is its own end, and so is a call that threw or ended the run; a retried one is not", () => {
      const over = {
        stageAttempt: 1,
        step: "last",
        reason: "no",
        spent: amounts,
        errors: { abort: "over" },
        verdict: {},
      };
      const read = readRecording(
        "r",
        journal([
          failed("plain"),
          started("agent", true),
          triedAgain("agent"),
          finished("agent", "x"),
          started("thrown", true),
          failed("thrown"),
          started("last", true),
          ["step.failed", over],
        ]),
      );
      expect(read.steps.map(({ step, came }) => [step, came.kind])).toEqual([
        ["plain", "failed"],
        ["agent", "finished"],
        ["thrown", "failed"],
        ["last", "aborted"],
      ]);
      expect(read.steps[0]?.came).toMatchObject({ reason: "no", code: "IO_FAILED" });
      expect(callKey(1, "agent")).toBe("1/agent");
    });
  });
});

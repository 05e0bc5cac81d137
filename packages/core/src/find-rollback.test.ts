import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FactsReader, agentFailure, eventVerdict, isOutside, stepVerdict } from "./find-rollback.ts";
import type { EntryKind } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { RollbackFacts } from "./rollback.ts";

describe("read facts", () => {
  type Line = readonly [kind: EntryKind, body: JsonObject];

  const saved = (sequence: number, tree: string, more: JsonObject = {}): Line => [
    "checkpoint",
    { sequence, tree, stage: "work", iteration: 1, score: null, trigger: "stage", ...more },
  ];
  const tested = (code: number, step = "test"): Line => [
    "step.finished",
    { stageAttempt: 1, step, result: { kind: "exited", code } },
  ];
  const began = (step: string): Line => ["step.started", { stageAttempt: 1, step, files: true, estimate: null }];
  const restoring = (sequence: number, paths: readonly string[] | null = null): Line => [
    "restore.started",
    { target: `r@${sequence}`, paths },
  ];
  const restored = (sequence: number): Line => ["restore.finished", { target: `r@${sequence}` }];

  function read(lines: readonly Line[]): RollbackFacts {
    const reader = new FactsReader();
    for (const [at, [kind, body]] of lines.entries()) reader.read({ entry: at + 1, kind, body });
    const known = lines.flatMap(([kind, body]) =>
      kind === "checkpoint" ? [{ sequence: Number(body["sequence"]), damage: null }] : [],
    );
    return reader.facts({ run: "r", state: { kind: "active" }, known });
  }

  const left = (facts: RollbackFacts): readonly number[] =>
    facts.candidates.filter(({ leftBehind }) => leftBehind).map(({ sequence }) => sequence);

  test("a verdict applies to the files of the next checkpoint, unless a step changes them first", () => {
    const facts = read([saved(1, "a"), tested(0), saved(2, "b"), tested(1), began("edit"), saved(3, "c"), tested(0)]);
    expect(facts.checks.map(({ sequence, files, pass }) => [sequence, files, pass])).toEqual([
      [2, "b", true],
      [2, "b", false],
      [3, "c", true],
    ]);
  });

  test("a checkpoint inside a step that changes files is partial", () => {
    const ends: readonly Line[] = [
      ["step.finished", { stageAttempt: 1, step: "edit", result: null }],
      ["step.failed", { stageAttempt: 1, step: "edit", reason: "x" }],
      ["step.lost", { stageAttempt: 1, step: "edit" }],
      ["stage.entered", { stageAttempt: 2, stage: "check", iteration: 1 }],
    ];
    for (const end of ends) {
      const facts = read([saved(1, "a"), began("edit"), saved(2, "b"), end, saved(3, "c")]);
      expect(facts.candidates.map(({ half }) => half)).toEqual([[], ["edit"], []]);
    }
  });

  test("a score belongs to its review, and not to files that were never reviewed", () => {
    const ended: Line = [
      "stage.ended",
      { stageAttempt: 1, stage: "review", event: "review_fail", reason: "r", next: "w", score: 80 },
    ];
    const facts = read([
      ["stage.entered", { stageAttempt: 1, stage: "review", iteration: 1 }],
      ended,
      saved(1, "a", { score: 80 }),
      began("edit"),
      saved(2, "b", { score: 80 }),
    ]);
    expect(facts.scores).toEqual([{ entry: 2, sequence: 1, files: "a", score: 80 }]);
    // Without stages there is no review, so each checkpoint has its own score.
    expect(read([saved(1, "a", { score: 5 }), saved(2, "b", { score: 4 })]).scores.map(({ score }) => score)).toEqual([
      5, 4,
    ]);
  });

  test("a restore discards the entries after its target, and their verdicts", () => {
    const lines = [saved(1, "a"), tested(0), saved(2, "b"), tested(1), saved(3, "c")];
    const back = [
      restoring(2),
      saved(4, "c", { trigger: "before_restore" }),
      restored(2),
      saved(5, "b", { trigger: "restore" }),
    ];
    const facts = read([...lines, ...back]);
    expect(left(facts)).toEqual([3, 4]);
    expect(facts.checks).toMatchObject([{ pass: true }]);
    expect(facts.trouble).toEqual({ kind: "none" });
    // The restore is undone, so the checkpoint that was left behind is current again, with its ancestors and their verdicts.
    const undone = [
      restoring(4),
      saved(6, "b", { trigger: "before_restore" }),
      restored(4),
      saved(7, "c", { trigger: "restore" }),
    ];
    const again = read([...lines, ...back, ...undone]);
    expect(left(again)).toEqual([5, 6]);
    expect(again.checks).toMatchObject([{ pass: true }, { pass: false }]);
  });

  test("a restore that was undone, never ended, or was of single paths, moves nothing", () => {
    const lines = [saved(1, "a"), saved(2, "b"), restoring(1), saved(3, "b", { trigger: "before_restore" })];
    expect(left(read([...lines, restored(3)]))).toEqual([]);
    expect(left(read(lines))).toEqual([]);
    const paths = [saved(1, "a"), saved(2, "b"), restoring(1, ["x"]), saved(3, "b", { trigger: "before_restore" })];
    expect(left(read([...paths, restored(1), saved(4, "c")]))).toEqual([3]);
  });

  test("effects: done ones can be found again, permanent or unknown ones cannot, refused ones never happened", () => {
    const intend = (key: string, detail: JsonObject = {}): Line => [
      "effect.intended",
      { key, kind: "push", target: "t", payload: "p", detail },
    ];
    const done = (key: string): Line => ["effect.settled", { key, outcome: "done", adopted: false, receipt: 1 }];
    const { effects } = read([
      intend("a"),
      done("a"),
      intend("b", { rollback: "refuse" }),
      done("b"),
      intend("c"),
      ["effect.unknown", { key: "c", reason: "?" }],
      intend("d"),
      ["effect.settled", { key: "d", outcome: "failed", reason: "no" }],
    ]);
    expect(effects.map(({ key, entry, unsafe }) => [key, entry, unsafe === null])).toEqual([
      ["a", 2, true],
      ["b", 4, false],
      ["c", 5, false],
    ]);
  });

  test("a checkpoint of the stage that ends the run is not one to continue from", () => {
    const entered = (stage: string): Line => ["stage.entered", { stageAttempt: 1, stage, iteration: 1 }];
    const fatal: Line = ["run.ended", { outcome: "failed", reason: "stuck" }];
    const lines = [entered("work"), saved(1, "a"), entered("fatal"), saved(2, "a", { stage: "fatal" }), fatal];
    const ended = (more: readonly Line[]) => read([...lines, ...more]).candidates.map((one) => one.ended);
    expect(ended([saved(3, "a", { stage: "fatal" })])).toEqual([false, true, true]);
    expect(ended([saved(3, "a")])).toEqual([false, true, false]);
    expect(ended([["run.reopened", { reason: "again" }]])).toEqual([false, false]);
  });

  const someLine = fc.oneof(
    fc.constantFrom<Line>(
      tested(0),
      tested(1),
      began("edit"),
      ["note", {}],
      ["x.own", { any: [1] }],
      ["run.waiting", {}],
    ),
    fc.nat(6).map((one) => restoring(one)),
    fc.nat(6).map((one) => restored(one)),
  );

  test("for any journal: every checkpoint is a candidate, the newest is never discarded, and no verdict belongs to a discarded one", () => {
    fc.assert(
      fc.property(fc.array(someLine, { maxLength: 20 }), fc.array(fc.nat(20), { maxLength: 6 }), (lines, places) => {
        const all = [...lines];
        for (const place of places.toSorted((a, b) => b - a)) all.splice(place, 0, ["checkpoint", {}]);
        let sequence = 0;
        const numbered = all.map((line): Line =>
          line[0] === "checkpoint" ? saved((sequence += 1), `t${sequence % 3}`) : line,
        );
        const facts = read([...numbered, saved(sequence + 1, "last")]);
        expect(facts.candidates.map((one) => one.sequence)).toEqual(
          Array.from({ length: sequence + 1 }, (_, at) => at + 1),
        );
        expect(facts.candidates.at(-1)?.leftBehind).toBe(false);
        const behind = new Set(left(facts));
        expect(facts.checks.some((one) => behind.has(one.sequence))).toBe(false);
      }),
    );
  });
});

describe("read verdict", () => {
  describe("the end of a stage", () => {
    const event = (name: string) => eventVerdict({ stage: "verify", event: name, reason: "r" });

    test.each([
      ["review_pass", "review", true],
      ["ci_fail", "ci", false],
      ["pr_fail_fixable", "pr", false],
      ["passed", "verify", true],
      ["failed", "verify", false],
      ["tests.regressed", "tests", false],
    ] as const)("%s is a verdict on %s", (name, check, pass) => {
      expect(event(name)).toEqual({ name: check, pass, reason: "r" });
    });

    test.each(["impl_done", "impl_not_done", "setup_done", "fatal", "ci_conflict", "passing_by", "bypass"])(
      "%s is not a verdict on the files",
      (name) => {
        expect(event(name)).toBeNull();
      },
    );
  });

  describe("a finished step", () => {
    test("a command's exit is a verdict; interrupted and not started are none", () => {
      expect(stepVerdict("gate", { kind: "exited", code: 0, output: "" })).toMatchObject({ name: "gate", pass: true });
      expect(stepVerdict("gate", { kind: "exited", code: 2, output: "" })).toMatchObject({
        pass: false,
        reason: "gate failed with exit 2",
      });
      expect(stepVerdict("gate", { kind: "exited", code: null })).toMatchObject({ pass: false });
      expect(stepVerdict("gate", { kind: "timed_out", code: null })).toMatchObject({ pass: false });
      expect(stepVerdict("gate", { kind: "interrupted", code: null })).toBeNull();
      expect(stepVerdict("gate", { kind: "not_started", code: null })).toBeNull();
    });

    test("a parser's result for each file is a verdict", () => {
      const parsed = { kind: "parsed", path: "a", by: "node" };
      expect(stepVerdict("parse", [parsed, { kind: "skipped", path: "b" }])).toMatchObject({ pass: true });
      expect(stepVerdict("parse", [parsed, { kind: "failed", path: "b" }])).toMatchObject({ pass: false });
      expect(stepVerdict("parse", [])).toBeNull();
      expect(stepVerdict("parse", [{ kind: "skipped" }])).toBeNull();
      expect(stepVerdict("list", ["a", "b"])).toBeNull();
    });

    test("a boolean is a verdict, any other value is none", () => {
      expect(stepVerdict("lint", { passed: false, reason: "3 errors" })).toMatchObject({
        pass: false,
        reason: "3 errors",
      });
      expect(stepVerdict("lint", { pass: true })).toMatchObject({ pass: true });
      for (const other of [null, 1, "passed", {}, { pass: "yes" }, { kind: "done", receipt: 1 }])
        expect(stepVerdict("x", other)).toBeNull();
    });
  });

  test("a failed agent call, whatever the cause, is not a verdict on the files", () => {
    const report = { outcome: "failed", cause: "overload", message: "Overloaded", usage: {} };
    expect(agentFailure(report)).toBe("The agent failed (overload): Overloaded");
    expect(stepVerdict("agent", report)).toBeNull();
    expect(agentFailure({ ...report, outcome: "completed" })).toBeNull();
    expect(agentFailure({ outcome: "failed" })).toBeNull();
  });

  test.each([
    "HTTP 429",
    "connect ECONNREFUSED 127.0.0.1:1",
    "Rate limit reached",
    "no space left on device",
    "Overloaded",
  ])("an external cause: %s", (reason) => {
    expect(isOutside(reason)).toBe(true);
  });
  test.each(["TypeError: x is not a function", "exit 1", "4290 lines", "assertion failed"])(
    "not an external cause: %s",
    (reason) => {
      expect(isOutside(reason)).toBe(false);
    },
  );
});

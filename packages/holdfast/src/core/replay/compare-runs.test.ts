import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareRuns, readOutcomes } from "./compare-runs.ts";
import type { Outcome } from "./compare-runs.ts";

const outcome: fc.Arbitrary<Outcome> = fc.record({
  entry: fc.nat(1000),
  visit: fc.nat(50),
  stage: fc.constantFrom("work", "check"),
  iteration: fc.nat(30),
  step: fc.constantFrom("agent", "verify", null),
  kind: fc.constantFrom("agent", "check", "stage"),
  came: fc.record({ text: fc.string({ maxLength: 3 }) }),
  tree: fc.constantFrom("t1", "t2", null),
});
const outcomes = fc.array(outcome, { maxLength: 8 });

describe("two runs", () => {
  test("that did the same part nowhere, whatever their entry numbers are", () => {
    fc.assert(
      fc.property(outcomes, fc.nat(), (a, shift) => {
        const b = a.map((one) => ({ ...one, entry: one.entry + shift, visit: one.visit + shift }));
        expect(compareRuns(a, b)).toEqual({ same: a.length, step: null, files: null, verdict: null });
      }),
    );
  });

  test("part at the first outcome that differs", () => {
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

  test("that differ only in their ids, nonces, commits and times part nowhere", () => {
    const of = (text: string): Outcome => ({
      entry: 1,
      visit: 2,
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

  test("swapped, give the same answer with its sides swapped", () => {
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

test("outcomes are told from a journal without times, ids and folders", () => {
  const body = (of: object) => ({ visit: 1, ...of });
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
  expect(compareRuns(read(1, "t"), read(1, "u"))).toMatchObject({ step: null, files: { expected: "t", actual: "u" } });
});

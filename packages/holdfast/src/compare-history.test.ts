import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EntryKind, JournalEntry } from "@holdfast/core/journal";
import { type JsonObject, sha256 } from "@holdfast/core/json";
import { type Divergence, type DivergingSide, HistoryReader, commonPoint, findDivergence } from "./compare-history.ts";

describe("diverge", () => {
  const began: DivergingSide["began"] = { workflow: "impl", work: { kind: "task", text: "t" }, files: ["c", "f"] };
  const steps = (run: string, ...names: readonly string[]): DivergingSide["steps"] =>
    names.map((name, at) => ({ run, entry: at + 1, name: name.split("=")[0] ?? "", digest: name }));

  test("a fork diverged from its parent at the checkpoint that it was forked from", () => {
    const parent = { lineage: [{ run: "a", sequence: 9 }], steps: steps("a", "plan", "edit=1", "test=1"), began };
    const fork = {
      lineage: [
        { run: "b", sequence: 2 },
        { run: "a", sequence: 4 },
      ],
      steps: [...steps("a", "plan"), ...steps("b", "edit=2")],
      began: { ...began, work: { kind: "none" } as const },
    };
    expect(findDivergence(parent, fork)).toMatchObject({
      common: { run: "a", sequence: 4 },
      beginning: "checkpoint",
      first: { shared: 1, kind: "result", a: { run: "a", name: "edit" }, b: { run: "b", name: "edit" } },
    });
  });

  test.each<[string, Partial<DivergingSide["began"]>]>([
    ["another workflow", { workflow: "crunch" }],
    ["other files", { files: ["d", "g"] }],
    ["no files", { files: [] }],
  ])("unrelated runs that began with %s have no common beginning, whatever results are equal", (_name, other) => {
    const a = { lineage: [{ run: "a", sequence: 1 }], steps: steps("a", "plan", "edit=1"), began };
    const b = { lineage: [{ run: "b", sequence: 1 }], steps: steps("b", "plan", "ask"), began: { ...began, ...other } };
    const first = { shared: 0, kind: "result", a: { name: "plan" }, b: { name: "plan" } };
    expect(findDivergence(a, b)).toMatchObject({ common: null, beginning: "none", first });
  });

  test("two issues are two beginnings; one issue, or a task in other words, is one", () => {
    const of = (work: DivergingSide["began"]["work"]): DivergingSide => ({
      lineage: [],
      steps: steps("a", "plan"),
      began: { ...began, work },
    });
    const beginning = (a: DivergingSide["began"]["work"], b: DivergingSide["began"]["work"]): string =>
      findDivergence(of(a), of(b)).beginning;
    expect(beginning({ kind: "issue", number: 1 }, { kind: "issue", number: 2 })).toBe("none");
    expect(beginning({ kind: "issue", number: 1 }, { kind: "issue", number: 1 })).toBe("alike");
    expect(beginning({ kind: "task", text: "a" }, { kind: "task", text: "b" })).toBe("alike");
  });

  test("unrelated runs with an equal beginning diverge at the first step of another name, or where one of them stopped", () => {
    const a = { lineage: [{ run: "a", sequence: 1 }], steps: steps("a", "plan", "edit=1"), began };
    const b = { lineage: [{ run: "b", sequence: 1 }], steps: steps("b", "plan", "ask"), began };
    expect(findDivergence(a, b)).toMatchObject({
      common: null,
      beginning: "alike",
      first: { shared: 1, kind: "step" },
    });
    // Of a run that is at its very beginning, no commit may be known yet.
    expect(findDivergence(a, { ...b, began: { ...began, files: ["f"] } }).beginning).toBe("alike");
    expect(findDivergence(a, { ...b, steps: steps("b", "plan") }).first).toMatchObject({ kind: "length", b: null });
  });

  test("two forks of forks have the nearest common ancestor", () => {
    const lineage = (...points: readonly string[]) =>
      points.map((point) => ({ run: point.slice(0, 1), sequence: Number(point.slice(1)) }));
    expect(commonPoint([lineage("d3", "b5", "a2"), lineage("c1", "b7", "a2")])).toEqual({ run: "b", sequence: 5 });
    expect(commonPoint([lineage("d3", "b5", "a2"), lineage("c1", "a8"), lineage("a4")])).toEqual({
      run: "a",
      sequence: 2,
    });
    expect(commonPoint([lineage("a1"), lineage("b1")])).toBeNull();
  });

  /** Any tree of forks: each run comes from an earlier one, at some checkpoint. */
  const forest = fc
    .array(
      fc.record({
        parent: fc.nat(),
        at: fc.integer({ min: 1, max: 9 }),
        newest: fc.integer({ min: 1, max: 9 }),
        root: fc.boolean(),
      }),
      {
        minLength: 2,
        maxLength: 8,
      },
    )
    .map((runs) => {
      const born: { readonly run: string; readonly newest: number; readonly before: DivergingSide["lineage"] }[] = [];
      for (const [at, { parent, at: sequence, newest, root }] of runs.entries()) {
        const from = root || at === 0 ? undefined : born[parent % at];
        const before = from === undefined ? [] : [{ run: from.run, sequence }, ...from.before];
        born.push({ run: `r${at}`, newest, before });
      }
      return born.map(({ run, newest, before }) => [{ run, sequence: newest }, ...before]);
    });
  const history = fc.array(fc.constantFrom("plan", "edit=1", "edit=2", "test=1"), { maxLength: 6 });

  const turned = ({ first, ...rest }: Divergence): Divergence => ({
    ...rest,
    first: first === null ? null : { ...first, a: first.b, b: first.a },
  });

  test("compared with itself a run has no difference; swapped sides swap the answer; the order of runs does not matter", () => {
    fc.assert(
      fc.property(forest, history, history, fc.nat(), (lineages, one, other, seed) => {
        const [first = [], second = []] = lineages;
        const a = { lineage: first, steps: steps("a", ...one), began };
        const b = { lineage: second, steps: steps("b", ...other), began };
        expect(findDivergence(a, a)).toEqual({ common: first[0], beginning: "checkpoint", first: null });
        expect(findDivergence(b, a)).toEqual(turned(findDivergence(a, b)));
        const shuffled = [
          ...lineages.slice(seed % lineages.length),
          ...lineages.slice(0, seed % lineages.length),
        ].toReversed();
        expect(commonPoint(shuffled)).toEqual(commonPoint(lineages));
      }),
    );
  });
});

describe("read history", () => {
  function historyOf(...lines: readonly (readonly [EntryKind, JsonObject])[]) {
    const reader = new HistoryReader(sha256);
    for (const [at, [kind, body]] of lines.entries()) {
      const entry: JournalEntry = {
        run: "a",
        entry: at + 1,
        kind,
        at: new Date(at * 1000).toISOString(),
        epoch: 1,
        body,
        digest: "",
        hash: "",
      };
      reader.read(entry);
    }
    return reader.history();
  }

  const key = "a/pr";

  test("steps are identified by name and result, whatever they cost and however their keys are ordered", () => {
    const one = historyOf(["step.finished", { stageAttempt: 1, step: "edit", result: { a: 1, b: 2 }, spent: null }]);
    const other = historyOf([
      "step.finished",
      { stageAttempt: 4, step: "edit", result: { b: 2, a: 1 }, spent: { tokens: 5 } },
    ]);
    expect(one.steps[0]?.digest).toBe(other.steps[0]?.digest);
    const failed = historyOf(["step.failed", { stageAttempt: 1, step: "edit", reason: "no", spent: null }]);
    expect(failed).toMatchObject({ failures: 1, steps: [{ name: "edit" }] });
    expect(failed.steps[0]?.digest).not.toBe(one.steps[0]?.digest);
  });

  test("values that differ in any two runs are not a difference; finished work is", () => {
    const made = (result: JsonObject) =>
      historyOf(["step.finished", { stageAttempt: 1, step: "work", result, spent: null }]).steps[0]?.digest;
    const one = {
      at: "2026-11-15T11:40:00.000Z",
      head: "a".repeat(40),
      milliseconds: 5,
      tree: "c".repeat(40),
      say: ["hi"],
    };
    const later = { ...one, at: "2026-11-16T01:02:03.456Z", head: "b".repeat(40), milliseconds: 9 };
    expect(made(later)).toBe(made(one));
    expect(made({ ...one, tree: "d".repeat(40) })).not.toBe(made(one));
    expect(made({ ...one, say: ["ho"] })).not.toBe(made(one));
    expect(made({ ...one, at: "later" })).not.toBe(made(one));
  });

  test("an effect is its outcome, with the number that the forge gave it", () => {
    const intended = [
      "effect.intended",
      { key, kind: "pull_request", target: "shop", payload: "", detail: {} },
    ] as const;
    const settled = ["effect.settled", { key, outcome: "done", adopted: false, receipt: { number: 7 } }] as const;
    expect(historyOf(intended).effects).toMatchObject([{ state: "intended", number: null }]);
    expect(historyOf(intended, ["effect.unknown", { key, reason: "?" }]).effects).toMatchObject([{ state: "unknown" }]);
    expect(historyOf(intended, settled, intended).effects).toEqual([
      { kind: "pull_request", target: "shop", state: "done", adopted: false, number: 7 },
    ]);
  });

  test("time and calls", () => {
    const estimate = { tokens: 1, microUsd: 0, milliseconds: 0 };
    const history = historyOf(
      ["step.started", { stageAttempt: 1, step: "ask", files: true, estimate }],
      ["step.started", { stageAttempt: 1, step: "write", files: true, estimate: null }],
      [
        "step.finished",
        { stageAttempt: 1, step: "ask", result: null, spent: { tokens: 5, microUsd: 0, milliseconds: 1, unpriced: 1 } },
      ],
      // Entries are a second apart. The holder died a quarter of a second after the third: only that long did it work.
      ["lease.taken", { from: { epoch: 1, heartbeatAt: new Date(2250).toISOString() } }],
      ["step.lost", { stageAttempt: 1, step: "ask", spent: { tokens: 2, microUsd: 3, milliseconds: 0 } }],
      ["step.interrupted", { stageAttempt: 1, step: "ask", spent: { tokens: 1, microUsd: 0, milliseconds: 0 } }],
    );
    expect(history).toMatchObject({ calls: 1, wall: 5000, work: 4250 });
    expect(history.spent).toEqual({ tokens: 8, microUsd: 3, milliseconds: 1, unpriced: 1 });
  });
});

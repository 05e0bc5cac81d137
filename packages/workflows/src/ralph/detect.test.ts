import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleIteration, unlimitedBudget } from "@holdfast/test-support/workflows/ralph-sample";
import { detect } from "./detect.ts";
import { type BestIteration, FINDING_SHAPE, type Iteration } from "./iteration.ts";
import { defaultRalphOptions } from "./options.ts";

const row = (...each: readonly Partial<Iteration>[]) =>
  each.map((one, place) => sampleIteration({ ...one, number: place + 1 }));
const look = (iterations: readonly Iteration[], given: Partial<Parameters<typeof detect>[0]> = {}) =>
  detect({
    iterations,
    failure: null,
    failing: { names: [], more: 0 },
    best: null,
    interventions: [],
    detection: defaultRalphOptions.detection,
    budget: unlimitedBudget,
    ...given,
  });
const kinds = (...args: Parameters<typeof look>) => look(...args).map((finding) => finding.kind);

describe("stuck", () => {
  const same = { signature: "s", tree: "t" };
  test("the same failure with the same files three times, with which iterations and what they have in common", () => {
    expect(look(row({ ...same, signature: "r" }, same, same, same))).toEqual([
      {
        kind: "stuck",
        iteration: 4,
        sentence: "Stuck: iterations 2 to 4 failed in the same way with the same files",
        evidence: { because: "same_failure_same_files", iterations: [2, 3, 4], common: "s" },
      },
    ]);
    expect(kinds(row(same, same))).toEqual([]);
    expect(kinds(row(same, { ...same, signature: "r" }, same, same))).toEqual([]);
    expect(kinds(row(same, { ...same, tree: "u" }, same))).toEqual([]);
  });

  test("an agent that failed each time is the cause, not the check after it", () => {
    const failed = { ...same, outcome: "failed" } as const;
    const sentence = (...each: readonly Partial<Iteration>[]) =>
      look(row(...each), { failure: "exit 3: panic:\n cannot open model" })[0]?.sentence;
    expect(sentence(failed, failed, failed)).toBe(
      "Stuck: the agent failed in iterations 1 to 3: exit 3: panic: cannot open model",
    );
    expect(sentence(failed, same, failed)).toBe("Stuck: iterations 1 to 3 failed in the same way with the same files");
  });

  test("where the files are unknown, the iterations after the first changed none", () => {
    const none = { signature: "s", filesChanged: 0 };
    expect(kinds(row({ ...none, filesChanged: 1 }, none, none))).toEqual(["stuck"]);
    expect(kinds(row(none, { ...none, filesChanged: 1 }, none))).toEqual([]);
    expect(kinds(row(none, { ...none, filesChanged: null }, none))).toEqual([]);
  });

  test("different failures of the same files, and a failure that names nothing, are not the same failure", () => {
    const failures = ["1", "2", "3", "4"].map((signature) => ({ ...same, signature, filesChanged: 0 }));
    expect(kinds(row(...failures))).toEqual([]);
    const silent = { tree: "t", filesChanged: 0 };
    expect(kinds(row(silent, silent, silent, silent))).toEqual([]);
  });

  test.each(["not_run", "unchecked"] as const)("%s has no signature and is still the same failure", (verdict) => {
    const one = { tree: "t", verdict };
    expect(look(row(one, one, one))).toMatchObject([{ kind: "stuck", evidence: { common: null } }]);
    expect(kinds(row(one, { ...one, tree: "u" }, one))).toEqual([]);
  });

  test("iterations before an intervention do not count, nor those of another unit, nor passed ones", () => {
    const iterations = row(same, same, same);
    expect(kinds(iterations, { interventions: [{ kind: "answered", at: 1, answer: "continue" }] })).toEqual([]);
    expect(kinds(row({ ...same, unit: 0 }, { ...same, unit: 1 }, { ...same, unit: 1 }))).toEqual([]);
    expect(kinds(row(same, same, { ...same, verdict: "passed" }))).toEqual([]);
    expect(kinds(iterations, { detection: { ...defaultRalphOptions.detection, stuck: null } })).toEqual([]);
  });
});

describe("oscillation", () => {
  const files = (...trees: readonly (string | null)[]) => row(...trees.map((tree, n) => ({ tree, signature: `${n}` })));
  test("files that alternate between states", () => {
    expect(look(files("c", "a", "b", "a", "b"))).toEqual([
      {
        kind: "oscillation",
        iteration: 5,
        sentence: "Back and forth between two states of the files: iterations 2, 3, 4, 5",
        evidence: { between: "files", iterations: [2, 3, 4, 5], states: ["a", "b"] },
      },
    ]);
    expect(kinds(files("a", "a", "b", "b", "a", "b"))).toEqual(["oscillation"]);
  });

  test.each([
    ["three turns", ["a", "b", "a"]],
    ["a third state", ["a", "b", "a", "c"]],
    ["an unknown state", ["a", "b", null, "a", "b"]],
    ["a circle of three", ["a", "b", "c", "a", "b", "c"]],
    ["a settled state", ["a", "b", "a", "b", "b"]],
  ])("%s is none", (_, trees) => {
    expect(kinds(files(...trees))).toEqual([]);
  });

  test("failing tests that alternate", () => {
    const iterations = row(...["x", "y", "x", "y"].map((failingDigest, n) => ({ failingDigest, tree: `${n}` })));
    expect(look(iterations)).toMatchObject([
      { kind: "oscillation", evidence: { between: "failing_tests", states: ["x", "y"] } },
    ]);
  });
});

describe("regression", () => {
  const tests = { passed: 9, failed: 1, skipped: 0 };
  const best: BestIteration = {
    iteration: 1,
    unit: 0,
    verdict: "failed",
    quality: 80,
    tree: "t",
    failing: { names: ["x"], more: 0 },
  };
  test("quality below the best by the threshold", () => {
    expect(look(row({ quality: 80 }, { quality: 70 }), { best })).toEqual([
      {
        kind: "regression",
        iteration: 2,
        sentence: "Worse than before: quality 70 after 80 in iteration 1",
        evidence: { best: { iteration: 1, quality: 80 }, quality: 70, lost: { names: [], more: 0 } },
      },
    ]);
    expect(kinds(row({ quality: 80 }, { quality: 70.1 }), { best })).toEqual([]);
    expect(kinds(row({ quality: 80 }, { quality: null }), { best })).toEqual([]);
    expect(kinds(row({ quality: 80 }, { quality: 0, unit: 1 }), { best })).toEqual([]);
  });

  test("tests that did not fail at the best and fail now, though the number of failures is the same", () => {
    const failing = { names: ["y"], more: 0 };
    const [finding] = look(row({ quality: 80, tests }, { quality: 80, tests }), { best, failing });
    expect(finding).toMatchObject({ kind: "regression", evidence: { lost: { names: ["y"] } } });
    expect(finding?.sentence).toBe("Worse than before: what did not fail in iteration 1 fails now: y");
  });

  test("a new failing test is not a regression", () => {
    const failing = { names: ["x", "y"], more: 0 };
    const grown = { passed: 9, failed: 2, skipped: 0 };
    expect(kinds(row({ quality: 80, tests }, { quality: 78, tests: grown }), { best, failing })).toEqual([]);
    expect(
      kinds(row({ quality: 80, tests }, { quality: 78, tests: { ...grown, passed: 8 } }), { best, failing }),
    ).toEqual(["regression"]);
  });

  test("an incomplete list of names is ignored", () => {
    const cut = { ...best, failing: { names: ["x"], more: 3 } };
    expect(
      kinds(row({ quality: 80, tests }, { quality: 80, tests }), { best: cut, failing: { names: ["y"], more: 0 } }),
    ).toEqual([]);
  });
});

describe("burn rate", () => {
  const spend = (tokens: number | null, quality: number | null) => ({
    spent: { tokens, microUsd: null },
    quality,
    signature: `${quality}`,
  });
  const budget = (limit: number, spent: number) => ({
    ...unlimitedBudget,
    spent: { ...unlimitedBudget.spent, tokens: spent },
    limit: { ...unlimitedBudget.limit, tokens: limit },
  });
  const rising = row(...[10, 20, 30, 40, 50].map((quality) => spend(100, quality)));
  test("the budget ends before the work does", () => {
    expect(look(rising, { budget: budget(900, 500) })).toEqual([
      {
        kind: "burn_rate",
        iteration: 5,
        sentence: "At 100 tokens an iteration the budget is enough for 4 more, and at this pace it takes 5",
        evidence: {
          measure: "tokens",
          perIteration: 100,
          iterations: [1, 2, 3, 4, 5],
          left: 400,
          affordable: 4,
          gained: 40,
          perPoint: 12.5,
          needed: 5,
        },
      },
    ]);
    expect(kinds(rising, { budget: budget(1_000, 500) })).toEqual([]);
    expect(kinds(rising)).toEqual([]);
  });

  test("without progress: only near the end", () => {
    const flat = row(...[1, 2, 3, 4, 5].map((n) => ({ ...spend(100, 50), signature: `${n}` })));
    expect(look(flat, { budget: budget(999, 500) })).toMatchObject([
      { evidence: { needed: null, gained: 0, perPoint: null } },
    ]);
    expect(kinds(flat, { budget: budget(1_000, 500) })).toEqual([]);
  });

  test("unknown usage of an agent is not guessed", () => {
    const silent = row(spend(100, 1), spend(null, 2), spend(100, 3), spend(100, 4), spend(100, 5));
    expect(kinds(silent, { budget: budget(501, 500) })).toEqual([]);
    expect(kinds(rising.slice(1), { budget: budget(501, 500) })).toEqual([]);
  });

  test("of several budgets, the one that ends first", () => {
    const both = { ...budget(900, 500), limit: { tokens: 900, microUsd: null, milliseconds: 2_000 } };
    expect(look(rising, { budget: both })).toMatchObject([{ evidence: { measure: "milliseconds", affordable: 2 } }]);
  });
});

const VERDICTS: readonly Iteration["verdict"][] = ["passed", "failed", "unchecked", "not_run"];
const any = fc.record({
  unit: fc.nat({ max: 1 }),
  verdict: fc.constantFrom(...VERDICTS),
  quality: fc.option(fc.nat({ max: 100 })),
  signature: fc.constantFrom(null, "a", "b"),
  tree: fc.constantFrom(null, "t", "u"),
  failingDigest: fc.constantFrom(null, "f", "g"),
  filesChanged: fc.constantFrom(null, 0, 1),
});

test("every finding is of the newest iteration, names only existing iterations, and can be stored", () => {
  fc.assert(
    fc.property(fc.array(any, { maxLength: 12 }), (story) => {
      const iterations = row(...story);
      const budget = { ...unlimitedBudget, limit: { tokens: null, microUsd: null, milliseconds: 1_500 } };
      for (const finding of look(iterations, { budget })) {
        expect(FINDING_SHAPE(JSON.parse(JSON.stringify(finding)))).toBeNull();
        expect(finding.iteration).toBe(iterations.length);
        if (finding.kind === "regression") continue;
        for (const number of finding.evidence.iterations) expect(iterations.map((one) => one.number)).toContain(number);
      }
    }),
  );
});

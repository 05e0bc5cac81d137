import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { checkTrails, countLines, directionOf, findBest, readMeasures } from "./compare-measures.ts";

describe("count lines", () => {
  test("lines are counted per file and in total; a binary has none", () => {
    const file = (path: string) => ({ path, status: "modified", from: null });
    expect(countLines([file("a.ts"), file("b.png")], "3\t1\ta.ts\n-\t-\tb.png\n")).toEqual({
      files: 2,
      added: 3,
      removed: 1,
      changed: [
        { path: "a.ts", status: "modified", from: null, added: 3, removed: 1 },
        { path: "b.png", status: "modified", from: null, added: null, removed: null },
      ],
    });
    expect(countLines([], "")).toEqual({ files: 0, added: 0, removed: 0, changed: [] });
  });
});

describe("find best", () => {
  type Judged = Parameters<typeof findBest>[0][number];

  const NOTHING: Judged = {
    id: "a",
    checks: [],
    calls: 0,
    failures: 0,
    ownSpent: null,
    score: null,
    scores: [],
    metrics: [],
    spent: { tokens: 0, microUsd: 0, milliseconds: 0 },
    time: { wall: 0, work: 0 },
  };
  const verdict = (pass: boolean) => checkTrails([{ name: "test", pass, reason: "", files: "", stageAttempt: 1 }]);
  const measured = (value: number) => [{ name: "style", value }];

  test("a fork that has not run is not best by what its source had spent", () => {
    const spent = (tokens: number) => ({ tokens, microUsd: tokens, milliseconds: 0 });
    const source = { ...NOTHING, calls: 2, spent: spent(20), time: { wall: 9, work: 9000 } };
    const fork = { ...NOTHING, id: "b", spent: spent(10), ownSpent: spent(0), time: { wall: 0, work: 5000 } };
    expect(findBest([source, fork])).toEqual([]);
    expect(findBest([source, { ...fork, calls: 1 }]).map(({ dimension, ids }) => `${dimension} ${ids.join()}`)).toEqual(
      ["tokens b", "cost b", "time b"],
    );
  });

  test("best is determined for each dimension, without a sum", () => {
    const a = {
      ...NOTHING,
      id: "a",
      checks: verdict(true),
      score: 70,
      scores: measured(9),
      time: { wall: 9, work: 5000 },
    };
    const b = {
      ...NOTHING,
      id: "b",
      checks: verdict(false),
      score: 90,
      scores: measured(9),
      time: { wall: 1, work: 6000 },
    };
    expect(findBest([a, b])).toEqual([
      { dimension: "checks", ids: ["a"] },
      { dimension: "score", ids: ["b"] },
      { dimension: "time", ids: ["a"] },
    ]);
  });

  test("a difference below a second is no difference in time", () => {
    const a = { ...NOTHING, id: "a", time: { wall: 0, work: 1200 } };
    expect(findBest([a, { ...a, id: "b", time: { wall: 0, work: 1900 } }])).toEqual([]);
  });

  test("a trail lists the same verdict on the same files once in a stage attempt, and another one on them too", () => {
    const said = (pass: boolean, files: string, stageAttempt = 1) => ({
      name: "test",
      pass,
      reason: "",
      files,
      stageAttempt,
    });
    const trail = checkTrails([
      said(false, "x"),
      said(false, "x"),
      said(false, "y"),
      said(true, "y"),
      said(false, "y"),
    ]);
    expect(trail.map((one) => one.trail)).toEqual([[false, false, true, false]]);
    // An agent that changes nothing fails in each attempt.
    const stuck = checkTrails([said(false, "x", 1), said(false, "x", 2), said(false, "x", 2), said(false, "x", 3)]);
    expect(stuck.map((one) => one.trail)).toEqual([[false, false, false]]);
  });

  test("an unknown price is not the lowest", () => {
    const dear = { ...NOTHING, id: "a", spent: { tokens: 5, microUsd: 900, milliseconds: 0 } };
    const unknown = { ...NOTHING, id: "b", spent: { tokens: 5, microUsd: 0, milliseconds: 0, unpriced: 1 } };
    expect(findBest([dear, unknown])).toEqual([]);
  });

  test.each([
    ["tests.passed", "more"],
    ["tests.failed", "less"],
    ["typeErrors", "less"],
    ["lint_warnings", "less"],
    ["coverage", "more"],
    ["bundle.bytes", null],
  ])("%s: %s", (name, better) => {
    expect(directionOf(name)).toBe(better);
  });

  const judged = fc.record({
    id: fc.constantFrom("a", "b", "c", "d", "e"),
    checks: fc.array(fc.boolean(), { maxLength: 2 }).map((passes) => passes.flatMap(verdict)),
    score: fc.option(fc.nat(3)),
    scores: fc.array(
      fc.nat(3).map((value) => ({ name: "style", value })),
      { maxLength: 1 },
    ),
    metrics: fc.array(
      fc.nat(3).map((value) => ({ name: "errors", value })),
      { maxLength: 1 },
    ),
    calls: fc.nat(1),
    failures: fc.nat(1),
    spent: fc.record({ tokens: fc.nat(3), microUsd: fc.nat(3), milliseconds: fc.nat(3) }),
    ownSpent: fc.option(fc.constant(NOTHING.spent)),
    time: fc.record({ wall: fc.nat(3), work: fc.nat(3) }),
  });

  test("the order of the runs does not matter, and no run is better than itself", () => {
    fc.assert(
      fc.property(fc.uniqueArray(judged, { selector: ({ id }) => id, minLength: 2 }), fc.nat(), (runs, seed) => {
        const at = seed % runs.length;
        expect(findBest([...runs.slice(at), ...runs.slice(0, at)].toReversed())).toEqual(findBest(runs));
        const [one] = runs;
        if (one !== undefined) expect(findBest([one, one])).toEqual([]);
      }),
    );
  });
});

describe("read measures", () => {
  test("scores of impl are those of the newest readable review", () => {
    const reviews = [
      { score: 60, scores: { faithful: 60, style: 61 } },
      { score: 80, scores: { faithful: 80, style: 81 } },
      { score: null, scores: null },
    ];
    expect(readMeasures({ reviews, history: [{ score: 3 }], best: { scores: { faithful: 99 } } })).toEqual({
      scores: [
        { name: "faithful", value: 80 },
        { name: "style", value: 81 },
      ],
      metrics: [],
    });
  });

  test("metrics of a loop are those of the whole verification, not of its last check", () => {
    const metrics = { tests: { passed: 7, failed: 1 }, errors: null, failing: { names: ["a"], more: 0 } };
    const checks = [{ command: "npm test", metrics: { tests: { passed: 3, failed: 0 }, errors: 4 } }];
    const iterations = [{ quality: 40 }, { quality: 55.5 }];
    const findings = [{ kind: "regression", evidence: { quality: 12 } }];
    expect(readMeasures({ findings, iterations, verification: { checks, metrics } })).toEqual({
      scores: [{ name: "quality", value: 55.5 }],
      metrics: [
        { name: "errors", value: 4 },
        { name: "tests.failed", value: 1 },
        { name: "tests.passed", value: 7 },
      ],
    });
  });

  test("any values are accepted, in any order of their keys, and only numbers are returned", () => {
    const values = fc.dictionary(fc.constantFrom("scores", "metrics", "a", "list"), fc.jsonValue({ maxDepth: 4 }));
    fc.assert(
      fc.property(values, (given) => {
        const found = readMeasures(given as JsonObject);
        const turned = Object.fromEntries(Object.entries(given).toReversed());
        for (const { value } of [...found.scores, ...found.metrics]) expect(Number.isFinite(value)).toBe(true);
        // Names that lie equally deep under two keys may be read from either; which names there are may not change.
        const names = ({ scores, metrics }: ReturnType<typeof readMeasures>) =>
          [scores, metrics].map((all) => all.map(({ name }) => name));
        expect(names(readMeasures(turned as JsonObject))).toEqual(names(found));
      }),
    );
  });
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { checkTrails } from "./check-trails.ts";
import { directionOf, findBest } from "./find-best.ts";

type Judged = Parameters<typeof findBest>[0][number];

const NOTHING: Judged = {
  id: "a",
  checks: [],
  score: null,
  scores: [],
  metrics: [],
  spent: { tokens: 0, microUsd: 0, milliseconds: 0 },
  time: { wall: 0, work: 0 },
};
const verdict = (pass: boolean) => checkTrails([{ name: "test", pass, reason: "", files: "" }]);
const measured = (value: number) => [{ name: "style", value }];

test("best is told for each dimension, with nothing summed up", () => {
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

test("a moment less is no less time: people read seconds", () => {
  const a = { ...NOTHING, id: "a", time: { wall: 0, work: 1200 } };
  expect(findBest([a, { ...a, id: "b", time: { wall: 0, work: 1900 } }])).toEqual([]);
});

test("a trail tells the same verdict on the same files once, and another one on them too", () => {
  const said = (pass: boolean, files: string) => ({ name: "test", pass, reason: "", files });
  const trail = checkTrails([said(false, "x"), said(false, "x"), said(false, "y"), said(true, "y"), said(false, "y")]);
  expect(trail.map((one) => one.trail)).toEqual([[false, false, true, false]]);
});

test("a price that nobody knows is not the lowest", () => {
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
  spent: fc.record({ tokens: fc.nat(3), microUsd: fc.nat(3), milliseconds: fc.nat(3) }),
  time: fc.record({ wall: fc.nat(3), work: fc.nat(3) }),
});

test("the order of the runs does not matter, and nobody is better than itself", () => {
  fc.assert(
    fc.property(fc.uniqueArray(judged, { selector: ({ id }) => id, minLength: 2 }), fc.nat(), (runs, seed) => {
      const at = seed % runs.length;
      expect(findBest([...runs.slice(at), ...runs.slice(0, at)].toReversed())).toEqual(findBest(runs));
      const [one] = runs;
      if (one !== undefined) expect(findBest([one, one])).toEqual([]);
    }),
  );
});

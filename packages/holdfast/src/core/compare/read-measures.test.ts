import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonObject } from "../json.ts";
import { readMeasures } from "./read-measures.ts";

test("scores of impl are those of the newest review that could be read", () => {
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

test("any values are read, in any order of their keys, and only numbers come out", () => {
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

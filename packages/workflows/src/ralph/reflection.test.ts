import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleReflection } from "@holdfast/test-support/workflows/ralph-sample";
import { readAnswer } from "./iterate.ts";
import { type BestIteration, type Metrics, type Reflection, type Verification, noMetrics } from "./iteration.ts";
import { DIMENSIONS, MEMORY_POLICIES, type MemoryPolicy, defaultRalphOptions } from "./options.ts";
import { type Dimensions, addReflection, bestOf, dimensionsOf, mergeLearnings, qualityOf } from "./reflection.ts";
import { MAX_LEARNINGS } from "./state.ts";
import { readVerification } from "./verify.ts";

describe("quality", () => {
  const weights = defaultRalphOptions.qualityWeights;
  const NOTHING: Dimensions = {
    validation: null,
    completeness: null,
    correctness: null,
    readability: null,
    efficiency: null,
  };

  const answer = (tokens: number | null) =>
    readAnswer({
      number: 1,
      unit: 0,
      units: [],
      report: {
        outcome: "completed",
        cause: null,
        message: null,
        text: "",
        milliseconds: 1,
        usage: { inputTokens: tokens, outputTokens: null, microUsd: null },
      },
      filesChanged: null,
      tree: null,
    });

  const verified = (codes: readonly number[], metrics: Partial<Metrics> = {}): Verification => {
    const ended = codes.map((code) => ({ command: "c", kind: "exited" as const, code, output: "", milliseconds: 1 }));
    return { ...readVerification({ number: 1, planned: codes.length, ended }), metrics: { ...noMetrics, ...metrics } };
  };

  const measure = (given: {
    readonly codes?: readonly number[];
    readonly metrics?: Partial<Metrics>;
    readonly mostTests?: number;
    readonly tokens?: number | null;
    readonly allowed?: number | null;
  }) => {
    const { codes = [1], metrics, mostTests = 0, tokens = null, allowed = null } = given;
    const verification = verified(codes, metrics);
    return dimensionsOf({
      answer: answer(tokens),
      verification,
      planned: codes.length,
      mostTests,
      tokensPerIteration: allowed,
    });
  };

  describe("dimensions contain only measured values", () => {
    test("unknown output gives only exit codes", () => {
      expect(measure({ codes: [1] })).toEqual({ ...NOTHING, validation: 0 });
      expect(measure({ codes: [0, 1] })).toEqual({ ...NOTHING, validation: 0.5 });
      expect(measure({ codes: [] })).toEqual(NOTHING);
    });

    test("tests: the passing ones, of those that ran and of the most that ever ran", () => {
      const tests = { passed: 6, failed: 2, skipped: 5 };
      expect(measure({ metrics: { tests }, mostTests: 12 })).toMatchObject({ completeness: 0.5, correctness: 0.75 });
      expect(measure({ metrics: { tests: { passed: 0, failed: 0, skipped: 3 } } })).toMatchObject({
        correctness: null,
      });
    });

    test("removing failing tests is not progress", () => {
      const before = measure({ metrics: { tests: { passed: 8, failed: 2, skipped: 0 } }, mostTests: 10 });
      const after = measure({ metrics: { tests: { passed: 4, failed: 0, skipped: 0 } }, mostTests: 10 });
      expect(Number(qualityOf(after, weights))).toBeLessThan(Number(qualityOf(before, weights)));
    });

    test("problems and tokens", () => {
      expect(measure({ metrics: { errors: 10 } }).readability).toBe(0.5);
      expect(measure({ metrics: { errors: 0, warnings: 0 } }).readability).toBe(1);
      expect(measure({ tokens: 200, allowed: 100 }).efficiency).toBe(0.5);
      expect(measure({ tokens: 0, allowed: 100 }).efficiency).toBe(1);
      expect(measure({ tokens: 200 }).efficiency).toBeNull();
      expect(measure({ allowed: 100 }).efficiency).toBeNull();
    });
  });

  describe("quality", () => {
    test("is weighed 30, 25, 25, 10, 10", () => {
      const one = (name: keyof Dimensions): Dimensions => ({
        validation: 0,
        completeness: 0,
        correctness: 0,
        readability: 0,
        efficiency: 0,
        [name]: 1,
      });
      expect(DIMENSIONS.map((name) => qualityOf(one(name), weights))).toEqual([30, 25, 25, 10, 10]);
    });

    test("missing dimensions are left out and the rest is weighed again", () => {
      expect(qualityOf({ ...NOTHING, validation: 1, readability: 0 }, weights)).toBe(75);
      expect(qualityOf(NOTHING, weights)).toBeNull();
      expect(qualityOf({ ...NOTHING, validation: 1 }, { ...weights, validation: 0 })).toBeNull();
    });

    const share = fc.option(fc.double({ min: 0, max: 1, noNaN: true }));
    const dimensions = fc.record({
      validation: share,
      completeness: share,
      correctness: share,
      readability: share,
      efficiency: share,
    });
    test("is between the worst and the best dimension, and rises with each", () => {
      fc.assert(
        fc.property(dimensions, fc.constantFrom(...DIMENSIONS), (some, name) => {
          const known = Object.values(some).filter((value) => value !== null);
          const quality = qualityOf(some, weights);
          if (quality === null) return expect(known).toEqual([]);
          expect(quality).toBeGreaterThanOrEqual(Math.min(...known) * 100 - 0.001);
          expect(quality).toBeLessThanOrEqual(Math.max(...known) * 100 + 0.001);
          if (some[name] !== null)
            expect(Number(qualityOf({ ...some, [name]: 1 }, weights))).toBeGreaterThanOrEqual(quality);
        }),
      );
    });
  });

  describe("the best iteration", () => {
    const one = (given: Partial<BestIteration>): BestIteration => ({
      iteration: 1,
      unit: 0,
      verdict: "failed",
      quality: 50,
      tree: null,
      failing: { names: [], more: 0 },
      ...given,
    });
    test("of equals the earliest stays, a passed one beats a better number, another unit's does not compete", () => {
      const first = one({});
      expect(bestOf(null, first)).toEqual(first);
      expect(bestOf(first, one({ iteration: 2 }))).toBe(first);
      expect(bestOf(first, one({ iteration: 2, quality: 50.1 }))).toMatchObject({ iteration: 2 });
      expect(bestOf(first, one({ iteration: 2, quality: 1, verdict: "passed" }))).toMatchObject({ iteration: 2 });
      expect(bestOf(one({ verdict: "passed" }), one({ iteration: 2, quality: 99 }))).toMatchObject({ iteration: 1 });
      expect(bestOf(first, { ...one({ iteration: 2 }), quality: null })).toBe(first);
      expect(bestOf(first, one({ iteration: 2, unit: 1, quality: 1 }))).toMatchObject({ iteration: 2 });
      expect(bestOf(first, { ...one({ iteration: 2, unit: 1 }), quality: null })).toBeNull();
    });

    test("no iteration is better than the one that was kept", () => {
      const any = fc.record({
        verdict: fc.constantFrom<"passed" | "failed">("passed", "failed"),
        quality: fc.nat({ max: 100 }),
      });
      fc.assert(
        fc.property(fc.array(any, { minLength: 1 }), (all) => {
          const rank = (it: { verdict: string; quality: number }) => (it.verdict === "passed" ? 1000 : 0) + it.quality;
          let best: BestIteration | null = null;
          all.forEach((each, place) => {
            best = bestOf(best, one({ ...each, iteration: place + 1 }));
          });
          const most = Math.max(...all.map(rank));
          expect(best).toMatchObject({ iteration: all.findIndex((each) => rank(each) === most) + 1 });
        }),
      );
    });
  });
});

describe("remember", () => {
  const numbers = (memory: readonly Reflection[]) => memory.map((one) => one.iteration);
  const all = (policy: MemoryPolicy, capacity: number, reflections: readonly Partial<Reflection>[]) =>
    reflections.reduce<readonly Reflection[]>(
      (memory, next, place) =>
        addReflection({
          memory,
          next: sampleReflection({ ...next, iteration: place + 1 }),
          options: { capacity, policy },
        }),
      [],
    );

  describe("eviction from a full window", () => {
    test("fifo: the oldest", () => {
      expect(numbers(all("fifo", 3, [{ signature: "a" }, {}, {}, { signature: "a" }, {}]))).toEqual([3, 4, 5]);
    });

    test("recency: the one whose failure was last seen longest ago", () => {
      expect(
        numbers(all("recency", 3, [{ signature: "a" }, { signature: "b" }, { signature: "c" }, { signature: "a" }])),
      ).toEqual([1, 3, 4]);
    });

    test("relevance: the one least related to the present failure", () => {
      const story = [
        { failing: ["x", "y"] },
        { signature: "s", failing: ["q"] },
        { failing: ["q"] },
        { learnings: ["z"] },
        { signature: "s", failing: ["x", "q"] },
      ];
      expect(numbers(all("relevance_weighted", 3, story))).toEqual([2, 3, 5]);
      expect(numbers(all("relevance_weighted", 2, [{ learnings: ["z"] }, {}, {}]))).toEqual([1, 3]);
    });
  });

  const reflection = fc.record({
    signature: fc.constantFrom(null, "a", "b"),
    failing: fc.uniqueArray(fc.constantFrom("x", "y", "z")),
    learnings: fc.constantFrom([], ["l"]),
  });

  test("the window is never too large, always has the newest, is in order, and a smaller one shrinks it", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...MEMORY_POLICIES),
        fc.integer({ min: 1, max: 10 }),
        fc.array(reflection, { minLength: 1, maxLength: 30 }),
        (policy, capacity, story) => {
          const memory = all(policy, capacity, story);
          expect(memory).toHaveLength(Math.min(capacity, story.length));
          expect(memory.at(-1)?.iteration).toBe(story.length);
          expect(numbers(memory)).toEqual(numbers(memory).toSorted((a, b) => a - b));
          const next = sampleReflection({ iteration: story.length + 1 });
          expect(numbers(addReflection({ memory, next, options: { capacity: 1, policy } }))).toEqual([next.iteration]);
        },
      ),
    );
  });

  describe("learnings", () => {
    test("repeated in another wording they only become newer", () => {
      const known = mergeLearnings([], { iteration: 1, texts: ["The parser is in b.ts", "two"] });
      expect(mergeLearnings(known, { iteration: 4, texts: ["the parser is in  B.ts!"] })).toEqual([
        { iteration: 1, text: "two" },
        { iteration: 4, text: "the parser is in  B.ts!" },
      ]);
    });

    test("there are never too many, and the newest stay", () => {
      const texts = Array.from({ length: MAX_LEARNINGS + 5 }, (_, n) => `fact ${n}`);
      const kept = mergeLearnings([], { iteration: 1, texts });
      expect(kept).toHaveLength(MAX_LEARNINGS);
      expect(kept.at(-1)?.text).toBe(texts.at(-1));
      expect(mergeLearnings(kept, { iteration: 2, texts: [] })).toEqual(kept);
    });
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Reflection } from "./iteration.ts";
import { sampleReflection } from "./loop-sample.ts";
import { mergeLearnings } from "./merge-learnings.ts";
import { MEMORY_POLICIES } from "./options.ts";
import type { MemoryPolicy } from "./options.ts";
import { remember } from "./remember.ts";
import { MAX_LEARNINGS } from "./state.ts";

const numbers = (memory: readonly Reflection[]) => memory.map((one) => one.iteration);
const all = (policy: MemoryPolicy, capacity: number, reflections: readonly Partial<Reflection>[]) =>
  reflections.reduce<readonly Reflection[]>(
    (memory, next, place) =>
      remember({ memory, next: sampleReflection({ ...next, iteration: place + 1 }), options: { capacity, policy } }),
    [],
  );

describe("what goes when the window is full", () => {
  test("fifo: the oldest", () => {
    expect(numbers(all("fifo", 3, [{ signature: "a" }, {}, {}, { signature: "a" }, {}]))).toEqual([3, 4, 5]);
  });

  test("recency: the one whose failure was longest not seen", () => {
    expect(
      numbers(all("recency", 3, [{ signature: "a" }, { signature: "b" }, { signature: "c" }, { signature: "a" }])),
    ).toEqual([1, 3, 4]);
  });

  test("relevance: the one that has least to do with the present failure", () => {
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

test("the window is never too large, always holds the newest, is in order, and a smaller one shrinks it", () => {
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
        expect(numbers(remember({ memory, next, options: { capacity: 1, policy } }))).toEqual([next.iteration]);
      },
    ),
  );
});

describe("learnings", () => {
  test("said again in other dress they only become younger", () => {
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

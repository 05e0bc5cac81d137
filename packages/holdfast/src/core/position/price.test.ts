import fc from "fast-check";
import { expect, test } from "vitest";
import { costOf, priceOf } from "./price.ts";

const PRICE = { input: 1.25, cached: 0.125, output: 10 };
const used = (inputTokens: number | null, outputTokens: number | null, cachedTokens?: number) => ({
  inputTokens,
  outputTokens,
  ...(cachedTokens === undefined ? {} : { cachedTokens }),
  microUsd: null,
});

test("dollars for a million tokens are millionths of a dollar for one; what a cache gave has its own", () => {
  expect(costOf(used(1_000_000, 0, 0), PRICE)).toBe(1_250_000);
  expect(costOf(used(1_000_000, 100_000, 1_000_000), PRICE)).toBe(125_000 + 1_000_000);
  expect(costOf(used(3, 0, 0), PRICE)).toBe(4);
  expect(costOf(used(1_000_000, 0), { input: 2, cached: 2, output: 3 })).toBe(2_000_000);
});

test("the agent's own word goes before the table, nothing at all included", () => {
  expect(costOf({ ...used(1000, 1000), microUsd: 7 }, PRICE)).toBe(7);
  expect(costOf({ ...used(0, 0), microUsd: 0 }, null)).toBe(0);
});

test("what is not known is not zero", () => {
  expect(costOf(used(1000, 10), null)).toBeNull();
  expect(costOf(used(null, 10), PRICE)).toBeNull();
  expect(costOf(used(10, null), PRICE)).toBeNull();
  expect(costOf(used(10, 10), PRICE)).toBeNull();
  expect(priceOf({ "codex:gpt-5": PRICE }, "codex", null)).toBeNull();
  expect(priceOf({ "codex:gpt-5": PRICE }, "codex", "gpt-6")).toBeNull();
  expect(priceOf({}, "constructor", "x")).toBeNull();
  expect(priceOf({ "codex:gpt-5": PRICE }, "codex", "gpt-5")).toBe(PRICE);
});

test("a whole number, never less than the parts, never less for more tokens", () => {
  const tokens = fc.nat(10_000_000);
  fc.assert(
    fc.property(tokens, tokens, tokens, (input, output, cached) => {
      const cost = costOf(used(input, output, Math.min(cached, input)), PRICE) ?? -1;
      expect(Number.isSafeInteger(cost) && cost >= 0).toBe(true);
      expect(costOf(used(input + 1, output, Math.min(cached, input)), PRICE)).toBeGreaterThanOrEqual(cost);
      expect(costOf(used(input, output, 0), PRICE)).toBeGreaterThanOrEqual(cost);
    }),
  );
});

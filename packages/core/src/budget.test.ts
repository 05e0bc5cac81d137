import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  NOTHING,
  RESOURCES,
  assumedUsage,
  costOf,
  exceeded,
  holdUnknown,
  nearLimit,
  newBudget,
  priceOf,
  reachedBy,
  reserve,
  settle,
  settleLost,
} from "./budget.ts";
import type { Amounts, Budget } from "./position.ts";

describe("budget", () => {
  const tokens = (amount: number): Amounts => ({ ...NOTHING, tokens: amount });

  function reserved(budget: Budget, estimate: Amounts) {
    const result = reserve(budget, estimate);
    if (result.kind !== "reserved") throw new Error(`exceeded ${result.resources.join()}`);
    return result;
  }

  test("settling a reservation frees the rest", () => {
    const after = reserved(newBudget({ tokens: 100 }), tokens(60)).budget;
    expect(reserve(after, tokens(50))).toEqual({ kind: "exceeded", resources: ["tokens"] });
    const settled = settle(after, { estimate: tokens(60), actual: tokens(40) });
    expect(settled).toMatchObject({ spent: tokens(40), reserved: NOTHING });
    expect(reserve(settled, tokens(60))).toMatchObject({ kind: "reserved" });
  });

  test("a call of unknown usage counts as the largest so far, unless its agent never reports tokens", () => {
    const { limit } = newBudget({ tokens: 1000 });
    const assumed = (largest: number, neverKnown?: boolean) =>
      assumedUsage(limit, { tokens: largest, microUsd: 0 }, 300, neverKnown).tokens;
    expect([assumed(0), assumed(40), assumed(0, true), assumed(40, true)]).toEqual([100, 40, 300, 300]);
    expect(assumedUsage(newBudget({}).limit, NOTHING, 300, true)).toEqual(NOTHING);
  });

  test("the estimate of a call of unknown usage is held, the known part is not", () => {
    const estimate = { ...NOTHING, tokens: 60, microUsd: 9 };
    const after = reserved(newBudget({ tokens: 100 }), estimate).budget;
    const end = (actual: Amounts) => holdUnknown(settle(after, { estimate, actual }), estimate, actual);
    expect(end({ ...NOTHING, uncounted: 1, unpriced: 1 }).held).toEqual(estimate);
    expect(end({ ...NOTHING, tokens: 5, unpriced: 1 }).held).toEqual({ ...NOTHING, microUsd: 9 });
    expect(end({ ...NOTHING, tokens: 5, microUsd: 1 }).held).toBeUndefined();
    expect(reserve(end({ ...NOTHING, uncounted: 1 }), tokens(41))).toMatchObject({ kind: "exceeded" });
  });

  test("running calls count with their usage so far, whatever was reserved for them", () => {
    const after = reserved(newBudget({ tokens: 100, milliseconds: 0.5 }), NOTHING).budget;
    expect(reachedBy(after, [tokens(50), tokens(49)])).toEqual([]);
    expect(reachedBy(after, [tokens(50), tokens(50)])).toEqual(["tokens"]);
    expect(reachedBy({ ...after, held: tokens(1) }, [tokens(50), tokens(49)])).toEqual(["tokens"]);
    expect(reachedBy(newBudget({ microUsd: 5 }), [{ ...NOTHING, microUsd: 5 }])).toEqual(["microUsd"]);
  });

  test("a limit is near from 80 % on", () => {
    const { budget } = reserved(newBudget({ tokens: 100 }), tokens(79));
    expect(nearLimit(budget)).toEqual([]);
    expect(nearLimit(reserved(budget, tokens(1)).budget)).toEqual(["tokens"]);
  });

  test("at the limit nothing starts, not even a free call", () => {
    const full = settle(newBudget({ tokens: 100 }), { estimate: NOTHING, actual: tokens(100) });
    expect(exceeded(full)).toEqual(["tokens"]);
    expect(reserve(full, NOTHING)).toEqual({ kind: "exceeded", resources: ["tokens"] });
    expect(exceeded(newBudget({ tokens: 0 }))).toEqual(["tokens"]);
  });

  test("usage beyond the estimate is spent as well", () => {
    const budget = reserved(newBudget({ tokens: 100 }), tokens(10)).budget;
    expect(settle(budget, { estimate: tokens(10), actual: tokens(500) }).spent).toEqual(tokens(500));
  });

  test("a crash does not refund: an exhausted run does not regain its budget on resume (AIWG #1765)", () => {
    const dying = reserved(newBudget({ tokens: 100 }), tokens(100)).budget;
    const resumed = settleLost(dying);
    expect(exceeded(resumed)).toEqual(["tokens"]);
    expect(settleLost(resumed)).toEqual(resumed);
  });

  test("without limits nothing is refused and no limit is near", () => {
    const huge = reserved(newBudget(), tokens(Number.MAX_SAFE_INTEGER));
    expect(nearLimit(huge.budget)).toEqual([]);
    expect(settle(huge.budget, { estimate: NOTHING, actual: tokens(5) }).spent.tokens).toBe(5);
  });

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])("an amount of %d is refused", (bad) => {
    expect(() => reserve(newBudget(), tokens(bad))).toThrow(/whole number from 0/);
    expect(() => settle(newBudget(), { estimate: NOTHING, actual: tokens(bad) })).toThrow(/whole number from 0/);
  });

  const amount = fc.oneof(fc.nat(200), fc.maxSafeNat());
  const amounts = fc.record({ tokens: amount, microUsd: amount, milliseconds: amount });
  const limits = fc.record({ tokens: fc.option(amount), microUsd: fc.option(amount), milliseconds: fc.option(amount) });
  const act = fc.oneof(
    fc.record({ kind: fc.constant("reserve" as const), estimate: amounts }),
    fc.record({ kind: fc.constant("settle" as const), estimate: amounts, actual: amounts }),
    fc.record({ kind: fc.constant("lost" as const) }),
  );

  test("for any sequence of calls: no amount is negative, inexact, or refunded once spent", () => {
    fc.assert(
      fc.property(limits, fc.array(act), (limit, acts) => {
        let budget = newBudget(limit);
        for (const one of acts) {
          const before = budget;
          if (one.kind === "lost") budget = settleLost(budget);
          if (one.kind === "settle") budget = settle(budget, one);
          if (one.kind === "reserve") {
            const result = reserve(budget, one.estimate);
            if (result.kind === "reserved") budget = result.budget;
          }
          for (const resource of RESOURCES) {
            expect(Number.isSafeInteger(budget.spent[resource])).toBe(true);
            expect(Number.isSafeInteger(budget.reserved[resource])).toBe(true);
            expect(budget.reserved[resource]).toBeGreaterThanOrEqual(0);
            expect(budget.spent[resource]).toBeGreaterThanOrEqual(before.spent[resource]);
          }
          expect(budget.limit).toEqual(before.limit);
        }
      }),
    );
  });

  test("calls within their estimates never exceed the limit of a run", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.array(fc.tuple(fc.nat(100), fc.nat(100))), (limit, calls) => {
        let budget = newBudget({ tokens: limit });
        for (const [estimate, share] of calls) {
          const result = reserve(budget, tokens(estimate));
          if (result.kind === "exceeded") continue;
          const actual = tokens(Math.min(estimate, share));
          budget = settle(result.budget, { estimate: tokens(estimate), actual });
          expect(budget.spent.tokens).toBeLessThanOrEqual(limit);
        }
      }),
    );
  });
});

describe("price", () => {
  const PRICE = { input: 1.25, cached: 0.125, output: 10 };
  const used = (inputTokens: number | null, outputTokens: number | null, cachedTokens?: number) => ({
    inputTokens,
    outputTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    microUsd: null,
  });

  test("dollars per million tokens are millionths of a dollar per token; cached tokens have their own price", () => {
    expect(costOf(used(1_000_000, 0, 0), PRICE)).toBe(1_250_000);
    expect(costOf(used(1_000_000, 100_000, 1_000_000), PRICE)).toBe(125_000 + 1_000_000);
    expect(costOf(used(3, 0, 0), PRICE)).toBe(4);
    expect(costOf(used(1_000_000, 0), { input: 2, cached: 2, output: 3 })).toBe(2_000_000);
  });

  test("the agent's reported cost takes precedence over the table, also if it is zero", () => {
    expect(costOf({ ...used(1000, 1000), microUsd: 7 }, PRICE)).toBe(7);
    expect(costOf({ ...used(0, 0), microUsd: 0 }, null)).toBe(0);
  });

  test("an unknown cost is not zero", () => {
    expect(costOf(used(1000, 10), null)).toBeNull();
    expect(costOf(used(null, 10), PRICE)).toBeNull();
    expect(costOf(used(10, null), PRICE)).toBeNull();
    expect(costOf(used(10, 10), PRICE)).toBeNull();
    expect(priceOf({ "codex:gpt-5": PRICE }, "codex", null)).toBeNull();
    expect(priceOf({ "codex:gpt-5": PRICE }, "codex", "gpt-6")).toBeNull();
    expect(priceOf({}, "constructor", "x")).toBeNull();
    expect(priceOf({ "codex:gpt-5": PRICE }, "codex", "gpt-5")).toBe(PRICE);
  });

  test("a cost is a whole number, never less than its parts, never less for more tokens", () => {
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
});

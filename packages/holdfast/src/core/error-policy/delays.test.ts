import fc from "fast-check";
import { expect, test } from "vitest";
import { delayAt, delaysOf, fractionOf } from "./delays.ts";

test("waits grow as they are told to, up to the cap", () => {
  const params = { retries: 5, initialMs: 1_000, multiplier: 3, capMs: 20_000 };
  expect(delaysOf(params)).toEqual([1_000, 3_000, 9_000, 20_000, 20_000]);
  expect(delaysOf({ ...params, backoff: "none" })).toEqual([1_000, 1_000, 1_000, 1_000, 1_000]);
  expect(delaysOf({ ...params, backoff: "linear" })).toEqual([1_000, 2_000, 3_000, 4_000, 5_000]);
  expect(delaysOf({ ...params, backoff: "fibonacci" })).toEqual([1_000, 1_000, 2_000, 3_000, 5_000]);
});

test("never shorter than the last, never beyond the cap; a jitter only shortens, by no more than it may", () => {
  const params = fc.record({
    retries: fc.nat(20),
    initialMs: fc.nat(100_000),
    multiplier: fc.double({ min: 1, max: 100, noNaN: true }),
    capMs: fc.nat(1_000_000),
    backoff: fc.constantFrom("none" as const, "linear" as const, "exponential" as const, "fibonacci" as const),
  });
  const unit = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(params, unit, unit, (given, jitter, random) => {
      const delaysMs = delaysOf(given);
      expect(delaysMs).toEqual(delaysMs.toSorted((a, b) => a - b));
      expect(Math.max(0, ...delaysMs)).toBeLessThanOrEqual(given.capMs);
      delaysMs.forEach((delay, at) => {
        const jittered = delayAt({ delaysMs, jitter }, at, random) ?? -1;
        expect(jittered).toBeLessThanOrEqual(delay);
        expect(jittered).toBeGreaterThanOrEqual(Math.floor(delay * (1 - jitter)));
      });
      expect(delayAt({ delaysMs, jitter }, delaysMs.length, random)).toBeUndefined();
    }),
  );
});

test("any text of letters and digits is a fraction, and the first character counts most", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9]{1,12}$/), (text) => {
      expect(fractionOf(text)).toBeGreaterThanOrEqual(0);
      expect(fractionOf(text)).toBeLessThan(1);
    }),
  );
  expect([fractionOf("0"), fractionOf("i"), fractionOf("i0"), fractionOf("9")]).toEqual([0, 0.5, 0.5, 0.25]);
});

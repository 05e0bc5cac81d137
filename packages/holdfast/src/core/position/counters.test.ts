import fc from "fast-check";
import { expect, test } from "vitest";
import { bump, counterOf, reset } from "./counters.ts";
import type { Counters } from "./counters.ts";

const name = fc.oneof(fc.constantFrom("review", "parse", "__proto__", "constructor", "toString"), fc.string());
const act = fc.record({ kind: fc.constantFrom("bump", "bump", "reset"), name });

test("each counter is the number of bumps since its own last reset, whatever the others do", () => {
  fc.assert(
    fc.property(fc.array(act), (acts) => {
      let counters: Counters = {};
      const model = new Map<string, number>();
      for (const one of acts) {
        counters = one.kind === "bump" ? bump(counters, one.name) : reset(counters, one.name);
        model.set(one.name, one.kind === "bump" ? (model.get(one.name) ?? 0) + 1 : 0);
        for (const [key, value] of model) expect(counterOf(counters, key)).toBe(value);
      }
    }),
  );
});

test("counters survive a trip through JSON", () => {
  fc.assert(
    fc.property(fc.array(name), (names) => {
      const counters = names.reduce(bump, {});
      const back = JSON.parse(JSON.stringify(counters)) as Counters;
      for (const key of names) expect(counterOf(back, key)).toBe(counterOf(counters, key));
    }),
  );
});

test("ending one stage does not reset another's streak (agentize: the review guard could never fire)", () => {
  const counters = bump(bump(bump({}, "review"), "review"), "parse");
  expect(reset(counters, "parse")).toEqual({ review: 2 });
});

test("the old value is left as it was", () => {
  const before: Counters = Object.freeze({ review: 1 });
  bump(before, "review");
  reset(before, "review");
  expect(before).toEqual({ review: 1 });
});

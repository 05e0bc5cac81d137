import * as fc from "fast-check";
import { expect, test } from "vitest";
import { planKills } from "./demo.ts";

test("three points in order, at most one of them after the end of the run, the same for the same seed", () => {
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 4, max: 500 }), fc.nat(6), (seed, ends, after) => {
      const plan = { points: ends + after, ends, kills: 3 };
      const kills = planKills(seed, plan);
      expect(new Set(kills).size).toBe(3);
      expect(kills).toEqual(kills.toSorted((a, b) => a - b));
      for (const place of kills) expect(place >= 1 && place < plan.points).toBe(true);
      expect(kills.filter((place) => place >= ends).length).toBeLessThanOrEqual(1);
      expect(planKills(seed, plan)).toEqual(kills);
    }),
  );
});

test("every point but the first is reached by some seed", () => {
  const places = new Set<number>();
  for (let seed = 0; seed < 2000; seed += 1)
    for (const place of planKills(seed, { points: 40, ends: 38, kills: 3 })) places.add(place);
  expect(places.size).toBe(39);
});

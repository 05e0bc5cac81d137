import * as fc from "fast-check";
import { expect, test } from "vitest";
import { planKills } from "./kill-plan.ts";

test("three deaths, each after at least one thing happened, all before the end, and the same for the same seed", () => {
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 4, max: 500 }), (seed, points) => {
      const kills = planKills(seed, points, 3);
      expect(kills).toHaveLength(3);
      for (const gap of kills) expect(gap).toBeGreaterThanOrEqual(1);
      expect(kills.reduce((sum, gap) => sum + gap, 0)).toBeLessThan(points);
      expect(planKills(seed, points, 3)).toEqual(kills);
    }),
  );
});

test("seeds differ, and every place is reached by some seed", () => {
  const places = new Set<number>();
  for (let seed = 0; seed < 2000; seed += 1) {
    let at = 0;
    for (const gap of planKills(seed, 40, 3)) places.add((at += gap));
  }
  expect(places.size).toBe(39);
});

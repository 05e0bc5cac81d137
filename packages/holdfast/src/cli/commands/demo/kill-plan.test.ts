import * as fc from "fast-check";
import { expect, test } from "vitest";
import { planKills } from "./kill-plan.ts";

test("three places, in order, none twice, and the same for the same seed", () => {
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 4, max: 500 }), (seed, points) => {
      const kills = planKills(seed, points, 3);
      expect(new Set(kills).size).toBe(3);
      expect(kills).toEqual(kills.toSorted((a, b) => a - b));
      for (const place of kills) expect(place >= 1 && place < points).toBe(true);
      expect(planKills(seed, points, 3)).toEqual(kills);
    }),
  );
});

test("every place is reached by some seed", () => {
  const places = new Set<number>();
  for (let seed = 0; seed < 2000; seed += 1) for (const place of planKills(seed, 40, 3)) places.add(place);
  expect(places.size).toBe(39);
});

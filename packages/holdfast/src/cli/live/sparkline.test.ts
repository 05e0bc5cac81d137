import * as fc from "fast-check";
import { expect, test } from "vitest";
import { sparkline } from "./sparkline.ts";

test("a curve of scores", () => {
  expect(sparkline([60, 75, 70, 65, 64])).toBe("▅▇▆▆▆");
  expect(sparkline([0, 100])).toBe("▁█");
  expect(sparkline([])).toBe("");
});

test("one character a score, the newest when there is no room, never lower for a higher score", () => {
  const bars = "▁▂▃▄▅▆▇█";
  fc.assert(
    fc.property(fc.array(fc.double({ noNaN: false })), fc.nat(20), (scores, width) => {
      const line = sparkline(scores, width);
      expect([...line]).toHaveLength(Math.min(scores.length, width));
      expect(sparkline(scores).endsWith(line)).toBe(true);
    }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 100 }), (a, b) => {
      const [low, high] = [Math.min(a, b), Math.max(a, b)];
      expect(bars.indexOf(sparkline([low]))).toBeLessThanOrEqual(bars.indexOf(sparkline([high])));
    }),
  );
});

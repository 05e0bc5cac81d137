import fc from "fast-check";
import { expect, test } from "vitest";
import { parsePriority, priorityText, readPriority } from "./priority.ts";

test("words and numbers are read, and told back as they would be typed", () => {
  expect([parsePriority("low"), parsePriority("normal"), parsePriority("high"), parsePriority("-3")]).toEqual([
    -10, 0, 10, -3,
  ]);
  for (const odd of ["", "urgent", "1.5", "101", "-101", "1e2", "+1", "toString"])
    expect(parsePriority(odd), odd).toBeUndefined();
  fc.assert(
    fc.property(fc.integer({ min: -100, max: 100 }), (priority) => {
      expect(parsePriority(priorityText(priority))).toBe(priority);
      expect(readPriority(String(priority))).toBe(priority);
    }),
  );
  expect([readPriority(undefined), readPriority("damaged")]).toEqual([0, 0]);
});

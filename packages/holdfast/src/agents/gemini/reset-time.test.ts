import fc from "fast-check";
import { expect, test } from "vitest";
import { resetTime } from "./reset-time.ts";

test("spans count from now, in whatever way they are written", () => {
  expect(resetTime("Please retry in 1h2m3s.\nSuggested retry after 3723s.", 0)).toBe(3_723_000);
  expect(resetTime("Suggested retry after 2.5s.", 1000)).toBe(3500);
  expect(resetTime("Your quota will reset after 13h20m5s.", 0)).toBe(((13 * 60 + 20) * 60 + 5) * 1000);
});

test("a quota of the day is given anew at midnight in the zone that counts, on every day of a year", () => {
  const clock = new Intl.DateTimeFormat("en-US", {
    timeZone: "America/Los_Angeles",
    hourCycle: "h23",
    timeStyle: "medium",
  });
  const anyTime = fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2027, 0, 1) });
  fc.assert(
    fc.property(anyTime, (now) => {
      const at = resetTime("You have exhausted your daily quota on this model.", now) ?? Number.NaN;
      expect(clock.format(at)).toBe("00:00:00");
      expect(at).toBeGreaterThan(now);
      expect(at - now).toBeLessThanOrEqual(25 * 3_600_000);
    }),
  );
});

test("other words say nothing", () => {
  for (const text of ["", "Resource has been exhausted (e.g. check quota).", "retry later"])
    expect(resetTime(text, 0)).toBeNull();
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { resetTime, retryTime } from "./reset-time.ts";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const NOW = new Date(2026, 10, 15, 9, 30).getTime();

function words(date: Date, withDay: boolean): string {
  const hour = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
  const clock = `${hour}:${String(date.getMinutes()).padStart(2, "0")} ${date.getHours() < 12 ? "AM" : "PM"}`;
  const day = `${MONTHS[date.getMonth()] ?? ""} ${date.getDate()}${ending(date.getDate())}, ${date.getFullYear()} `;
  return `You’ve hit your usage limit. Visit https://x.test or try again at ${withDay ? day : ""}${clock}.`;
}

function ending(day: number): string {
  if (day > 10 && day < 14) return "th";
  return ["th", "st", "nd", "rd"][day % 10] ?? "th";
}

test("a date, as Codex writes it, is the minute after it: never too early, never two minutes late", () => {
  const anyTime = fc.date({ min: new Date(2026, 0, 1), max: new Date(2030, 0, 1), noInvalidDate: true });
  fc.assert(
    fc.property(anyTime, (date) => {
      const at = resetTime(words(date, true), NOW) ?? Number.NaN;
      // Where clocks are set back an hour comes twice; to the minute it is still the same.
      expect(new Date(at - 60_000).getMinutes()).toBe(date.getMinutes());
      expect(Math.abs(at - date.getTime()) % 3_600_000).toBeLessThanOrEqual(60_000);
    }),
  );
});

test("a time alone is of today", () => {
  const at = new Date(2026, 10, 15, 22, 4, 31);
  expect(resetTime(words(at, false), NOW)).toBe(new Date(2026, 10, 15, 22, 5).getTime());
});

test("spans count from now", () => {
  expect(resetTime("try again in 3 days 4 hours 5 minutes.", 0)).toBe((((3 * 24 + 4) * 60 + 5) * 60 + 60) * 1000);
  expect(resetTime("try again in 20 seconds", 0)).toBe(80_000);
});

test("other words say nothing", () => {
  for (const text of ["Try again later.", "", "try again at noon", "try again at Foo 3rd, 2026 1:00 AM"])
    expect(resetTime(text, NOW)).toBeNull();
});

test("the log tells when it will ask again; the last line counts", () => {
  const line = (time: string, wait: string) =>
    `${time}  WARN codex_core::responses_retry: stream disconnected - retrying sampling request (1/5 in ${wait})... retries=1\n`;
  const log = line("2026-11-15T09:00:00.000000Z", "3600.5s") + line("2026-11-15T10:00:00.000000Z", "250ms");
  expect(retryTime(line("2026-11-15T09:00:00.000000Z", "3600.5s"))).toBe(Date.parse("2026-11-15T10:00:00.500Z"));
  expect(retryTime(log)).toBe(Date.parse("2026-11-15T10:00:00.250Z"));
  expect(retryTime("something else")).toBeNull();
});

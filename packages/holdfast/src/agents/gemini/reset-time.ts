/** When a quota is given anew, from the words of a refusal: there is no field for it that Gemini CLI lets through. */
export function resetTime(message: string, now: number): number | null {
  const span = /(?:retry (?:after|in)|reset after) ((?:[\d.]+(?:ms|[dhms]))+)/i.exec(message)?.[1];
  if (span !== undefined) return now + spanOf(span);
  return /daily quota/i.test(message) ? nextMidnight(now) : null;
}

function spanOf(text: string): number {
  const parts = [...text.matchAll(/([\d.]+)(ms|[dhms])/g)];
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0);
}

const HOUR = 3_600_000;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: HOUR, d: 24 * HOUR };

/** Of the zone by which Google counts days, whatever its clocks are set to. Where they are changed that night, an hour is between the two guesses. */
function nextMidnight(now: number): number {
  const clock = new Intl.DateTimeFormat("en-US", { timeZone: ZONE, hourCycle: "h23", timeStyle: "medium" });
  const passed = (at: number) => {
    const [hours = 0, minutes = 0, seconds = 0] = clock.format(at).split(":").map(Number);
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + (at % 1000);
  };
  const guess = now + 24 * HOUR - passed(now);
  const off = passed(guess);
  return off === 0 ? guess : off < 12 * HOUR ? guess - off : guess + 24 * HOUR - off;
}

const ZONE = "America/Los_Angeles";

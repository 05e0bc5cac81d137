/**
 * When a limit is given anew, from "try again at Nov 18th, 2026 9:04 AM", "try again at 10:04 AM" (today) or "try again in 3 days 4 hours":
 * there is no field for it. Told to the minute and cut off, so a minute is added: who comes early is turned away again.
 */
export function resetTime(text: string, now: number): number | null {
  const at = /try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}):(\d{2}) ([AP])M/.exec(text);
  if (at !== null) return localTime(at.slice(1), now);
  const spans = /try again in ((?:\d+ (?:day|hour|minute|second)s?[ ,]*(?:and )?)+)/.exec(text)?.[1];
  if (spans === undefined) return null;
  const parts = [...spans.matchAll(/(\d+) (day|hour|minute|second)/g)];
  return now + parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), MINUTE);
}

const MINUTE = 60_000;
const UNITS: Readonly<Record<string, number>> = {
  day: 24 * 60 * MINUTE,
  hour: 60 * MINUTE,
  minute: MINUTE,
  second: 1000,
};
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** In the zone of this machine: Codex writes it for people. */
function localTime(parts: readonly (string | undefined)[], now: number): number | null {
  const [month, day, year, hour, minute, half] = parts;
  const date = new Date(now);
  if (month !== undefined) date.setFullYear(Number(year), MONTHS.indexOf(month), Number(day));
  date.setHours((Number(hour) % 12) + (half === "P" ? 12 : 0), Number(minute), 0, 0);
  if (month !== undefined && !MONTHS.includes(month)) return null;
  return date.getTime() + MINUTE;
}

/** When it means to ask again, from its log: `… responses_retry: … (1/5 in 3599.99s)…`, the moment first. */
export function retryTime(stderr: string): number | null {
  const last = [...stderr.matchAll(/^(\S+Z)\s.*responses_retry: .*\(\d+\/\d+ in ([\d.]+)(ms|s)\)/gm)].at(-1);
  if (last === undefined) return null;
  const [, moment, amount, unit] = last;
  const at = Date.parse(moment ?? "") + Number(amount) * (unit === "s" ? 1000 : 1);
  return Number.isFinite(at) ? at : null;
}

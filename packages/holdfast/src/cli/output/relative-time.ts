/** "5 min ago". A clock that is a little behind the writer's is not worth a word. */
export function relativeTime(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "unknown";
  const seconds = (now - at) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 10 || (seconds < 0 && distance < 60)) return "just now";
  const span = spanText(distance);
  return seconds > 0 ? `${span} ago` : `in ${span}`;
}

/** The moment itself, in the reader's zone, with the zone named: "2026-11-15 02:43:53 +01:00". */
export function exactTime(iso: string, offset: (at: number) => number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return iso;
  const minutes = offset(at);
  const local = new Date(at + minutes * 60_000).toISOString();
  return `${local.slice(0, 10)} ${local.slice(11, 19)} ${zoneText(minutes)}`;
}

function spanText(seconds: number): string {
  const unit = UNITS.find(({ from }) => seconds >= from) ?? SECONDS;
  return `${Math.floor(seconds / unit.seconds)} ${unit.name}`;
}

const SECONDS = { from: 0, seconds: 1, name: "s" };
const UNITS = [
  { from: 365 * 86_400, seconds: 365 * 86_400, name: "y" },
  { from: 60 * 86_400, seconds: 30 * 86_400, name: "mo" },
  { from: 86_400, seconds: 86_400, name: "d" },
  { from: 3600, seconds: 3600, name: "h" },
  { from: 60, seconds: 60, name: "min" },
];

function zoneText(minutes: number): string {
  if (minutes === 0) return "UTC";
  const distance = Math.abs(minutes);
  const hours = String(Math.floor(distance / 60)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${hours}:${String(distance % 60).padStart(2, "0")}`;
}

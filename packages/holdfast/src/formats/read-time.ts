/** A time as an instant in UTC. `zoned` is false where the document gave no offset: then it was taken as UTC. */
export interface ForeignTime {
  readonly iso: string;
  readonly zoned: boolean;
}

/** ISO 8601 with a date and a time of day, as Python, JavaScript and people write it; null for anything else. */
export function readTime(text: string): ForeignTime | null {
  const parts = TIME.exec(text)?.groups;
  if (parts === undefined) return null;
  const field = (name: string): number => Number(parts[name] ?? 0);
  const milliseconds = Number((parts["fraction"] ?? "").padEnd(3, "0").slice(0, 3));
  const local = Date.UTC(
    field("year"),
    field("month") - 1,
    field("day"),
    field("hour"),
    field("minute"),
    field("second"),
    milliseconds,
  );
  // Date.UTC rolls over: the 31st of February becomes a day in March, and years below 100 become 19xx.
  if (!new Date(local).toISOString().startsWith(`${parts["year"]}-${parts["month"]}-${parts["day"]}T${parts["hour"]}`))
    return null;
  if (field("minute") > 59 || field("second") > 59) return null;
  const offset = offsetMinutes(parts["zone"]);
  if (offset === null) return null;
  const instant = new Date(local - offset * 60_000).toISOString();
  return INSTANT.test(instant) ? { iso: instant, zoned: parts["zone"] !== undefined } : null;
}

const TIME =
  /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[T ](?<hour>\d\d):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?)?(?<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?$/;
/** An offset at the edge of the calendar leads out of four-digit years. */
const INSTANT = /^\d{4}-/;

function offsetMinutes(zone: string | undefined): number | null {
  if (zone === undefined || zone === "Z" || zone === "z") return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(":", "") || 0);
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes);
}

/** A time as some other tool wrote it, in our form; null when it cannot be read. */
export interface ForeignTime {
  /** ISO 8601, UTC, milliseconds. */
  readonly utc: string;
  /** Without one it was taken for UTC, which the reader must say. */
  readonly zone: boolean;
}

const TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|z|[+-]\d\d(?::?\d\d)?)?)?$/;

export function parseForeignTime(text: string): ForeignTime | null {
  const found = TIME.exec(text.trim());
  if (found === null) return null;
  const [, date = "", minute = "00:00", second = "00", fraction = "", zone] = found;
  const exact = `${minute}:${second}.${fraction.padEnd(3, "0").slice(0, 3)}`;
  const local = Date.parse(`${date}T${exact}Z`);
  // The 30th of February is taken for the 2nd of March by some engines; a real date is written back as it was read.
  if (Number.isNaN(local) || new Date(local).toISOString() !== `${date}T${exact}Z`) return null;
  const time = local - offsetOf(zone);
  return { utc: new Date(time).toISOString(), zone: zone !== undefined };
}

function offsetOf(zone: string | undefined): number {
  if (zone === undefined || zone === "Z" || zone === "z") return 0;
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(":", "") || "0");
  return (zone.startsWith("-") ? -minutes : minutes) * 60_000;
}

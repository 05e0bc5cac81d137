/** "30d", "12 h", "1.5w" in milliseconds. A unit is needed: nobody remembers what a bare 30 counts. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text.trim());
  if (match === null) return undefined;
  const unit = UNITS[match[2] ?? ""];
  if (unit === undefined) return undefined;
  const milliseconds = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(milliseconds) ? milliseconds : undefined;
}

/** The shortest text that parses back to exactly this long. */
export function formatDuration(milliseconds: number): string {
  for (const [name, unit] of Object.entries(UNITS)) {
    if (milliseconds >= unit && milliseconds % unit === 0) return `${milliseconds / unit}${name}`;
  }
  return `${milliseconds}ms`;
}

const DURATION = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/;
/** Weeks are read but not written: 30d and 28d belong to one family. */
const UNITS: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  w: 604_800_000,
};

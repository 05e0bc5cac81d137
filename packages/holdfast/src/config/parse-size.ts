/** "20MB", "1.5 GiB", "0", or a number of bytes. Decimal units count in thousands, the i-units in 1024s. */
export function parseSize(text: string | number): number | undefined {
  if (typeof text === "number") return wholeBytes(text);
  const match = SIZE.exec(text.trim());
  if (match === null) return undefined;
  const unit = UNITS[(match[2] ?? "").toLowerCase()];
  return unit === undefined ? undefined : wholeBytes(Number(match[1]) * unit);
}

/** The shortest text that parses back to exactly this many bytes. */
export function formatSize(bytes: number): string {
  const texts = WRITTEN.flatMap((name) => {
    const unit = UNITS[name.toLowerCase()] ?? 1;
    return bytes >= unit && bytes % unit === 0 ? [`${bytes / unit}${name}`] : [];
  });
  return [...texts, `${bytes}`].reduce((best, text) => (text.length < best.length ? text : best));
}

const SIZE = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i;
const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
};
const WRITTEN = ["TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"];

function wholeBytes(bytes: number): number | undefined {
  const whole = Math.round(bytes);
  return Number.isSafeInteger(whole) && whole >= 0 ? whole : undefined;
}

// Parses the values of settings as users write them: numbers, money, durations, sizes, model names. This module loads
// neither YAML nor zod.

import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";

/** The values that are set, to be laid over defaults: an undefined one must not hide its default. null is a value. */
export function givenValues<T extends object>(values: T): GivenValues<T> {
  // Only entries with undefined values are removed, which is what the type states.
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as GivenValues<T>;
}

type GivenValues<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

export function whole(value: unknown, least: number): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least ? value : undefined;
}

export function nonEmpty(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" && !value.includes("\0") ? value : undefined;
}

/** US dollars in millionths, rounded up; undefined if the value is not an amount. */
export function money(value: unknown): number | undefined {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.replace(/^\$/, "") : "";
  if (!/^\d{1,9}(?:\.\d+)?$/.test(text)) return undefined;
  const amount = Math.ceil(Number(text) * 1e6);
  return amount > 0 ? amount : undefined;
}

export function milliseconds(value: unknown): number | undefined {
  const parsed = typeof value === "string" ? parseDuration(value) : undefined;
  return parsed !== undefined && parsed > 0 ? Math.ceil(parsed) : undefined;
}

/** Parses "30d", "12 h" or "1.5w" to milliseconds. A unit is required, because a bare 30 is ambiguous. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text.trim());
  if (match === null) return undefined;
  const unit = DURATION_UNITS[match[2] ?? ""];
  if (unit === undefined) return undefined;
  const milliseconds = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(milliseconds) ? milliseconds : undefined;
}

/**
 * Formats a duration in the largest unit, up to days, that divides it. Parsing the text gives exactly this duration.
 */
export function formatDuration(milliseconds: number): string {
  for (const [name, unit] of Object.entries(DURATION_UNITS)) {
    if (milliseconds >= unit && milliseconds % unit === 0) return `${milliseconds / unit}${name}`;
  }
  return `${milliseconds}ms`;
}

const DURATION = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/;
/** Weeks are accepted but never written, so that 28d and 30d are comparable. */
const DURATION_UNITS: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  w: 604_800_000,
};

/**
 * Parses "20MB", "1.5 GiB", "0", or a number of bytes. Decimal units are powers of 1000, the i-units powers of 1024.
 */
export function parseSize(text: string | number): number | undefined {
  if (typeof text === "number") return wholeBytes(text);
  const match = SIZE.exec(text.trim());
  if (match === null) return undefined;
  const unit = SIZE_UNITS[(match[2] ?? "").toLowerCase()];
  return unit === undefined ? undefined : wholeBytes(Number(match[1]) * unit);
}

/** Returns the shortest text with a whole number that parses to exactly this many bytes. */
export function formatSize(bytes: number): string {
  const texts = WRITTEN.flatMap((name) => {
    const unit = SIZE_UNITS[name.toLowerCase()] ?? 1;
    return bytes >= unit && bytes % unit === 0 ? [`${bytes / unit}${name}`] : [];
  });
  return [...texts, `${bytes}`].reduce((best, text) => (text.length < best.length ? text : best));
}

const SIZE = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i;
const SIZE_UNITS: Readonly<Record<string, number>> = {
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

/**
 * `provider:model`, or `provider` alone for its default. Only the form is checked here, because only the agent knows
 * its models.
 */
export const MODEL: RegExp = /^[a-z][a-z0-9-]*(?::[^\0\n]*\S[^\0\n]*)?$/;

/** Reads an existing settings file. Throws IO_FAILED if it cannot be read or is not a regular file of at most 1 MB. */
export function readText(path: string): string {
  const hint = "Make it a plain file that you may read, of at most 1 MB.";
  try {
    const file = readRegularFile({ path, maxBytes: 1_000_000 });
    if (file.kind === "read") return file.bytes.toString("utf8");
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Cannot read the config: ${file.kind === "refused" ? file.why : `${path} is gone`}`,
      hint,
      data: { path },
    });
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    throw new HoldfastError({ code: "IO_FAILED", message: `Cannot read ${path}`, hint, data: { path }, cause });
  }
}

import { parseDuration } from "./parse-duration.ts";

/** US dollars as millionths, rounded up to the next one; undefined for what is no amount. */
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

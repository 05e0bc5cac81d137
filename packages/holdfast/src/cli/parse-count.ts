import { HoldfastError } from "../core/error.ts";

/** A whole number from 0 on. */
export function parseCount(flag: string, text: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(count)) return count;
  throw new HoldfastError({
    code: "USAGE",
    message: `--${flag} needs a whole number, not "${text}"`,
    hint: `For example --${flag} 20.`,
  });
}

/** How many to show: a number from 1 on, or "all" (undefined). */
export function parseLimit(text: string | undefined, fallback: number): number | undefined {
  if (text === undefined) return fallback;
  if (text === "all") return undefined;
  const limit = parseCount("limit", text);
  if (limit > 0) return limit;
  throw new HoldfastError({
    code: "USAGE",
    message: "--limit 0 would show nothing",
    hint: "Use --limit 1 or more, or --limit all.",
  });
}

// Values in holdfast.config.yaml: their parsers, and their JSON Schema for editors. Each shape accepts at least what the parser accepts; the test of the
// published schema lists the differences.

import { isCopyPattern } from "@holdfast/core/copy-files";
import { nonEmpty, parseDuration, parseSize } from "@holdfast/formats/setting-values";

export const TEXT = { type: "string", pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$` } as const;
const WORD = { type: "string", pattern: String.raw`^[\w.-]+$` } as const;
export const WORDS = { type: "array", items: WORD, minItems: 1 } as const;
export const COMMANDS = { anyOf: [TEXT, { type: "array", items: TEXT, minItems: 1 }] } as const;
export const COMMANDS_OR_NONE = { anyOf: [TEXT, { type: "array", items: TEXT }] } as const;
/** The rule of `isCopyPattern`. */
const COPY = {
  type: "string",
  pattern: String.raw`^(?!\.[gG][iI][tT](?:/|$))(?!(?:.*/)?\.{0,2}(?:/|$))[^\\\u0000]*[^\s\\\u0000][^\\\u0000]*$`,
} as const;
export const COPIES = { anyOf: [COPY, { type: "array", items: COPY }] } as const;
export const DAYS = { type: "string", pattern: String.raw`^\s*\d+(?:\.\d+)?\s*(?:d|h|m|s|ms|w)\s*$` } as const;
/** A duration that is not 0. */
export const DURATION = {
  type: "string",
  pattern: String.raw`^(?=.*[1-9])\s*\d+(?:\.\d+)?\s*(?:d|h|m|s|ms|w)\s*$`,
} as const;
export const SIZE = {
  anyOf: [
    { type: "number", minimum: 0 },
    { type: "string", pattern: String.raw`^\s*\d+(?:\.\d+)?\s*(?:[kKmMgGtT]?[bB]|[kKmMgGtT][iI][bB])?\s*$` },
  ],
} as const;
export const MONEY = {
  anyOf: [
    { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1_000_000_000 },
    { type: "string", pattern: String.raw`^\$?(?=.*[1-9])\d{1,9}(?:\.\d+)?$` },
  ],
} as const;
export const KEEP = { anyOf: [{ type: "integer", minimum: 0 }, { const: "all" }] } as const;
export const PRICE = { type: "number", minimum: 0, maximum: 1_000_000 } as const;

export function or(word: string, shape: Readonly<Record<string, unknown>>) {
  return { anyOf: [shape, { const: word }] };
}

export function between(least: number, most: number) {
  return { type: "integer", minimum: least, maximum: most };
}

/** An object with these keys only. */
export function keys(properties: Readonly<Record<string, unknown>>, required: readonly string[] = []) {
  return { type: "object", properties, required, additionalProperties: false };
}

export function commands(value: unknown): readonly string[] | undefined {
  const all = Array.isArray(value) ? value : [value];
  const texts = all.flatMap((one) => nonEmpty(one) ?? []);
  return texts.length === all.length && texts.length > 0 ? texts : undefined;
}

/** An empty list is a choice: no set-up. */
export function commandsOrNone(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) && value.length === 0 ? [] : commands(value);
}

export function copyPatterns(value: unknown): readonly string[] | undefined {
  const patterns = commandsOrNone(value);
  return patterns?.every(isCopyPattern) === true ? patterns : undefined;
}

export function words(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const texts = value.filter((word): word is string => typeof word === "string" && /^[\w.-]+$/.test(word));
  return texts.length === value.length ? texts : undefined;
}

export function hostName(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i.test(value)
    ? value.toLowerCase()
    : undefined;
}

export function size(value: unknown): number | undefined {
  return typeof value === "string" || typeof value === "number" ? parseSize(value) : undefined;
}

export function days(value: unknown): number | undefined {
  const parsed = typeof value === "string" ? parseDuration(value) : undefined;
  return parsed === undefined ? undefined : parsed / DAY;
}

const DAY = 86_400_000;

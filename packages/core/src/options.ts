// Checks of options: unknown names, values of the wrong type, and suggestions for misspelt names.

import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";

/** What an argument of the library must be. Callers in plain JavaScript have no compiler that checks it. */
const KINDS = {
  any: { wanted: "a value", fits: () => true },
  text: { wanted: "a text", fits: isText },
  textOrNull: { wanted: "a text or null", fits: (value) => value === null || isText(value) },
  path: { wanted: "a path", fits: (value) => isText(value) && value !== "" && !value.includes("\0") },
  texts: { wanted: "a list of texts", fits: (value) => Array.isArray(value) && value.every(isText) },
  list: { wanted: "a list", fits: (value) => Array.isArray(value) },
  flag: { wanted: "true or false", fits: (value) => typeof value === "boolean" },
  count: { wanted: "a whole number from 0", fits: isCount },
  amount: { wanted: "a number from 0", fits: isAmount },
  amountOrNull: { wanted: "a number from 0, or null", fits: (value) => value === null || isAmount(value) },
  number: { wanted: "a finite number", fits: Number.isFinite },
  object: { wanted: "an object", fits: isObject },
  function: { wanted: "a function", fits: (value) => typeof value === "function" },
  signal: { wanted: "an AbortSignal", fits: (value) => value instanceof AbortSignal },
} satisfies Readonly<Record<string, { readonly wanted: string; readonly fits: (value: unknown) => boolean }>>;

export type ArgumentKind = keyof typeof KINDS;

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isAmount(value: unknown): boolean {
  return Number.isFinite(value) && Number(value) >= 0;
}

/** A Date, a Map or a Promise has no options: they would be ignored silently. */
function isObject(value: unknown): boolean {
  return typeof value === "object" && /^\[object (?:Object|Module)\]$/.test(Object.prototype.toString.call(value));
}

/** Throws USAGE if the argument is absent or of another kind. */
export function checkArgument(call: string, name: string, value: unknown, kind: ArgumentKind): void {
  const { wanted, fits } = KINDS[kind];
  if (fits(value)) return;
  throw usageError(`${call} cannot use ${describeValue(value)} for ${name}`, `Give ${wanted}.`);
}

/** What an option must be: a kind, or one of these words. */
export type OptionKind = ArgumentKind | readonly string[];

/**
 * Rejects unknown options with USAGE and the nearest known name. Otherwise `save({ value: … })` would silently drop what the caller meant
 * to keep. Rejects options of the wrong kind, too: `open({ readOnly: "yes" })` must not open the store for writing.
 */
export function checkOptions(call: string, given: object, known: Readonly<Record<string, OptionKind>>): void {
  checkNames(call, given, Object.keys(known));
  for (const [name, value] of Object.entries(given)) {
    const kind = known[name] ?? "any";
    if (value === undefined) continue;
    if (typeof kind === "string") checkArgument(call, name, value, kind);
    else checkOneOf(call, name, value, kind);
  }
}

/** Rejects names that are not known. For JSON whose values are parsed one by one. */
export function checkNames(call: string, given: object, known: readonly string[]): void {
  checkArgument(call, "its options", given, "object");
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const [guess] = nearest(unknown, known);
  const hint = guess === undefined ? `Its options: ${known.join(", ")}.` : `Did you mean ${guess}?`;
  throw usageError(`${call} has no option "${unknown}"`, hint);
}

export function checkOneOf(call: string, name: string, value: unknown, known: readonly string[]): void {
  if (value === undefined || known.some((word) => word === value)) return;
  throw usageError(`${call} cannot use ${describeValue(value)} for ${name}`, choiceHint(value, known));
}

/** The hint for a value outside a closed set of words: always all of them, and the one that was probably meant. */
export function choiceHint(value: unknown, known: readonly string[]): string {
  const [guess] = typeof value === "string" ? nearest(value, known) : [];
  return `${guess === undefined ? "" : `Did you mean ${guess}? `}One of: ${known.join(", ")}.`;
}

/**
 * The functions below read one option each. An absent option gives the default; a value that does not fit is USAGE with the option's name.
 */

export function optionError(name: string, value: Json, wanted: string | readonly string[]): HoldfastError {
  return usageError(
    `The option ${name} cannot be ${JSON.stringify(value).slice(0, 80)}`,
    typeof wanted === "string" ? `Give ${wanted}.` : choiceHint(value, wanted),
    { option: name },
  );
}

export function count(given: JsonObject, name: string, otherwise: number, least: number): number {
  const value = given[name];
  if (value === undefined) return otherwise;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
  throw optionError(name, value, `a whole number from ${least}`);
}

export function score(given: JsonObject, name: string, otherwise: number): number {
  const value = count(given, name, otherwise, 0);
  if (value <= 100) return value;
  throw optionError(name, value, "a whole number from 0 to 100");
}

export function flag(given: JsonObject, name: string, otherwise: boolean): boolean {
  const value = given[name];
  if (value === undefined) return otherwise;
  if (typeof value === "boolean") return value;
  throw optionError(name, value, "true or false");
}

export function word<T extends string>(given: JsonObject, name: string, otherwise: T, known: readonly T[]): T {
  const value = given[name];
  if (value === undefined) return otherwise;
  const found = known.find((one) => one === value);
  if (found !== undefined) return found;
  throw optionError(name, value, known);
}

export function text(given: JsonObject, name: string): string {
  const value = given[name];
  if (typeof value === "string" && value.trim() !== "") return value;
  throw optionError(name, value ?? null, "a text that is not empty");
}

export function nullableText(given: JsonObject, name: string): string | null {
  return given[name] === undefined || given[name] === null ? null : text(given, name);
}

export function texts(given: JsonObject, name: string, otherwise: readonly string[]): readonly string[] {
  const value = given[name];
  if (value === undefined) return otherwise;
  if (!isJsonArray(value)) throw optionError(name, value, "a list of texts");
  return value.map((one) => {
    if (typeof one === "string") return one;
    throw optionError(name, one, "a list of texts");
  });
}

/** An absent record is empty: every option in it has its own default. */
export function record(given: JsonObject, name: string): JsonObject {
  const value = given[name];
  if (value === undefined) return {};
  if (isJsonObject(value)) return value;
  throw optionError(name, value, "an object");
}

export function within(
  given: JsonObject,
  name: string,
  otherwise: number,
  { least, most }: { readonly least: number; readonly most: number },
): number {
  const value = given[name];
  if (value === undefined) return otherwise;
  if (typeof value === "number" && value >= least && value <= most) return value;
  throw optionError(name, value, `a number from ${least} to ${most}`);
}

/**
 * For "did you mean …?": the candidates that a typing error turns into `text`, or that begin with it. Nearest first, at most `limit`. Empty
 * when nothing is near: a far-fetched guess is worse than none.
 */
export function nearest(text: string, candidates: Iterable<string>, limit = 3): readonly string[] {
  const typed = text.slice(0, MAX_LENGTH).toLowerCase();
  if (typed === "") return [];
  const tolerance = Math.max(1, Math.floor(typed.length / 3));
  const ranked: { readonly candidate: string; readonly rank: number }[] = [];
  for (const candidate of new Set(candidates)) {
    const name = candidate.slice(0, MAX_LENGTH).toLowerCase();
    const distance = name.startsWith(typed) ? 0.5 : editDistance(typed, name);
    if (distance <= tolerance) ranked.push({ candidate, rank: name === typed ? 0 : distance });
  }
  ranked.sort((a, b) => a.rank - b.rank || (a.candidate < b.candidate ? -1 : 1));
  return ranked.slice(0, limit).map((entry) => entry.candidate);
}

/** Names are short. The bound keeps the quadratic edit distance cheap when the user pastes a long text. */
const MAX_LENGTH = 128;

/** Counts insertions, deletions, substitutions and swaps of neighbouring characters. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(current, column - 1) + 1, at(last, column) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

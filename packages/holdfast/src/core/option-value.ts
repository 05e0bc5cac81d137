import { HoldfastError } from "./error.ts";
import { isJsonArray, isJsonObject } from "./json.ts";
import type { Json, JsonObject } from "./json.ts";

/** Readers of one option each: absent gives the default, anything that does not fit is USAGE with its name. */

export function optionError(name: string, value: Json, wanted: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `The option ${name} cannot be ${JSON.stringify(value).slice(0, 80)}`,
    hint: `Give ${wanted}.`,
    data: { option: name },
  });
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
  throw optionError(name, value, `one of ${known.join(", ")}`);
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

/** Absent is an empty one: every option in it has its own default. */
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

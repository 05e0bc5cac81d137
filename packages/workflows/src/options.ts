// Option tables: a workflow names each option once, with its default and how it is read. Its options are JSON.

import { checkAgentName } from "@holdfast/core/agent";
import type { JsonObject } from "@holdfast/core/json";
import { checkNames, count, flag, nullableText, record, within, word } from "@holdfast/core/options";

/** Reads one option. An absent one gives the default; an invalid value is USAGE with the option's name. */
type OptionReader<T> = (given: JsonObject, name: string) => T;
type OptionTable = Readonly<Record<string, OptionReader<unknown>>>;
export type OptionsOf<T extends OptionTable> = { readonly [K in keyof T]: ReturnType<T[K]> };

/** Throws USAGE for an unknown name or an invalid value. `call` names the options in messages. */
export function readOptions<T extends OptionTable>(call: string, table: T, given: JsonObject): OptionsOf<T> {
  checkNames(call, given, Object.keys(table));
  // There is one entry for each name of the table, read by its own reader.
  return Object.fromEntries(Object.entries(table).map(([name, read]) => [name, read(given, name)])) as OptionsOf<T>;
}

/** Options in an object of their own. Without it, each has its default. */
export function groupOption<T extends OptionTable>(call: string, table: T): OptionReader<OptionsOf<T>> {
  return (given, name) => readOptions(call, table, record(given, name));
}

export function countOption(otherwise: number, least: number): OptionReader<number> {
  return (given, name) => count(given, name, otherwise, least);
}

/** null: no limit. */
export function nullableCountOption(otherwise: number | null, least = 1): OptionReader<number | null> {
  return (given, name) => {
    const value = given[name];
    if (value === undefined) return otherwise;
    return value === null ? null : count(given, name, 0, least);
  };
}

export function withinOption(otherwise: number, least: number, most: number): OptionReader<number> {
  return (given, name) => within(given, name, otherwise, { least, most });
}

export function flagOption(otherwise: boolean): OptionReader<boolean> {
  return (given, name) => flag(given, name, otherwise);
}

export function wordOption<const T extends string>(otherwise: NoInfer<T>, known: readonly T[]): OptionReader<T> {
  return (given, name) => word(given, name, otherwise, known);
}

/** `provider:model`; null: the run's default model. */
export function modelOption(given: JsonObject, name: string): string | null {
  const model = nullableText(given, name);
  return model === null ? null : checkAgentName(name, model);
}

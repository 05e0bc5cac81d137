import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";

/**
 * One thing that an agent is asked for: how it is described to the agent, and how its answer is read. Both in one value, so that what is
 * asked and what is understood cannot differ. Reading never fails: agents write "85%", 0.85 and "85" for the same.
 */
export interface Field<T> {
  readonly described: Described;
  readonly read: (value: Json | undefined) => T;
}

/** What stands in the form: a text in quotes, bare (a number), one of a list, or members. */
export type Described =
  | { readonly kind: "text"; readonly about: string }
  | { readonly kind: "bare"; readonly about: string }
  | { readonly kind: "list"; readonly of: Described }
  | { readonly kind: "members"; readonly members: readonly (readonly [string, Described])[] };

/** Texts are cut: what an agent writes goes into prompts and checkpoints again. */
export const MAX_TEXT = 4_000;
const MAX_ITEMS = 100;

export function words(about: string): Field<string> {
  return { described: { kind: "text", about }, read: (value) => plainText(value) };
}

/** null when it was left out or left empty. */
export function maybeWords(about: string): Field<string | null> {
  return { described: { kind: "text", about: `${about}, or null` }, read: (value) => plainText(value) || null };
}

export function oneWord<const T extends string>(choices: readonly T[], otherwise: T): Field<T> {
  return {
    described: { kind: "text", about: choices.join(" | ") },
    read: (value) => findWord(value, choices) ?? otherwise,
  };
}

export function maybeWord<const T extends string>(choices: readonly T[]): Field<T | null> {
  return {
    described: { kind: "text", about: [...choices, "null"].join(" | ") },
    read: (value) => findWord(value, choices),
  };
}

/** From 0 to 100. A fraction below 1 is the same in another scale. */
export function percent(about: string, otherwise: number): Field<number> {
  return {
    described: { kind: "bare", about: `0 to 100: ${about}` },
    read: (value) => {
      const number = numberIn(value);
      if (number === null) return otherwise;
      return clamp(number > 0 && number < 1 ? number * 100 : number, 100);
    },
  };
}

/** From 0 to 1. What is above is a percentage. */
export function share(about: string, otherwise: number): Field<number> {
  return {
    described: { kind: "bare", about: `0 to 1: ${about}` },
    read: (value) => {
      const number = numberIn(value);
      if (number === null) return otherwise;
      return clamp(number > 1 ? number / 100 : number, 1);
    },
  };
}

export function yesOrNo(about: string, otherwise: boolean): Field<boolean> {
  return {
    described: { kind: "bare", about: `true or false: ${about}` },
    read: (value) => {
      if (typeof value === "boolean") return value;
      const word = typeof value === "string" ? value.trim().toLowerCase() : "";
      return word === "true" || word === "yes" ? true : word === "false" || word === "no" ? false : otherwise;
    },
  };
}

/** A list, or a text with one item a line. */
export function lines(about: string): Field<readonly string[]> {
  return {
    described: { kind: "list", of: { kind: "text", about } },
    read: (value) => {
      const items = typeof value === "string" ? value.split(/\r?\n/) : isJsonArray(value) ? value : [];
      return items
        .slice(0, MAX_ITEMS)
        .map((item) => plainText(item).replace(/^[-*]\s+/, ""))
        .filter((item) => item !== "");
    },
  };
}

export function members<T extends object>(fields: { readonly [K in keyof T]-?: Field<T[K]> }): Field<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return {
    described: { kind: "members", members: names.map((name) => [snakeCase(name), fields[name].described] as const) },
    read: (value) => {
      const byName = isJsonObject(value) ? namesOf(value) : new Map<string, Json>();
      const entries = names.map((name) => [name, fields[name].read(byName.get(bareName(name)))] as const);
      // Every name of T has been read by its own field.
      return Object.fromEntries(entries) as T;
    },
  };
}

/** A list of objects; what is none, or what `isUsable` finds nothing in, is left out. */
export function listOf<T extends object>(item: Field<T>, isUsable: (read: T) => boolean): Field<readonly T[]> {
  return {
    described: { kind: "list", of: item.described },
    read: (value) => {
      const items = isJsonArray(value) ? value : isJsonObject(value) ? [value] : [];
      return items
        .slice(0, MAX_ITEMS)
        .filter((one) => isJsonObject(one))
        .map((one) => item.read(one))
        .filter(isUsable);
    },
  };
}

/** null when there is no object, or `isUsable` finds nothing in it. */
export function maybe<T extends object>(item: Field<T>, isUsable: (read: T) => boolean): Field<T | null> {
  return {
    described: item.described,
    read: (value) => {
      if (!isJsonObject(value)) return null;
      const read = item.read(value);
      return isUsable(read) ? read : null;
    },
  };
}

/** The form that an agent fills in, as JSON that a person can read. */
export function describeField(field: Field<unknown>): string {
  return describe(field.described, "");
}

function describe(described: Described, indent: string): string {
  switch (described.kind) {
    case "text":
      return JSON.stringify(described.about);
    case "bare":
      return `<${described.about}>`;
    case "list":
      return `[${describe(described.of, indent)}]`;
    case "members": {
      const inner = `${indent}  `;
      const listed = described.members.map(([name, one]) => `${inner}"${name}": ${describe(one, inner)}`);
      return `{\n${listed.join(",\n")}\n${indent}}`;
    }
  }
}

function namesOf(object: JsonObject): ReadonlyMap<string, Json> {
  return new Map(Object.entries(object).map(([name, value]) => [bareName(name), value]));
}

/** "files_modified", "filesModified" and "Files modified" are one name. */
function bareName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function findWord<T extends string>(value: Json | undefined, choices: readonly T[]): T | null {
  const said = typeof value === "string" ? bareName(value) : "";
  return choices.find((choice) => bareName(choice) === said) ?? null;
}

function numberIn(value: Json | undefined): number | null {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  const found = typeof value === "string" ? /^\s*(\d+(?:\.\d+)?)\s*%?\s*$/.exec(value) : null;
  return found === null ? null : Number(found[1]);
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}

/** Half a character at the end of a cut, or made by an escape, could not be stored. */
function plainText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  const said = typeof value === "string" ? value : JSON.stringify(value);
  return said.trim().slice(0, MAX_TEXT).toWellFormed();
}

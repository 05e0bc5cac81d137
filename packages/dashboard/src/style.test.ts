import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Styles and components name the same classes: neither has one that the other does not know. */

const sources = (end: RegExp): string =>
  readdirSync(import.meta.dirname)
    .filter((name) => end.test(name) && !name.includes(".test."))
    .map((name) => readFileSync(join(import.meta.dirname, name), "utf8"))
    .join("\n");

const css = sources(/\.css$/).replaceAll(/\/\*[\s\S]*?\*\/|url\([^)]*\)/g, "");
const code = sources(/\.tsx?$/);
const styled = new Set([...css.matchAll(/\.([a-z][\w-]*)/gi)].map(([, name = ""]) => name));
/** Beginnings of names that are made from a value: `tone-${tone}`. */
const made = [...new Set([...code.matchAll(/([a-z]+-)\$\{/g)].map(([, begin = ""]) => begin))];
const isMade = (name: string): boolean => made.some((begin) => name.startsWith(begin));

test("every class of the styles is used", () => {
  const words = new Set(code.match(/[a-z][\w-]*/gi));
  expect([...styled].filter((name) => !words.has(name) && !isMade(name))).toEqual([]);
});

/** Classes that only tests look for. */
const UNSTYLED = new Set(["lane"]);

test("every class of a component has a style", () => {
  const given = [...code.matchAll(/\bclass=(?:"([^"]*)"|\{`([^`]*)`\})/g)].flatMap(([, plain, template]) =>
    (plain ?? (template ?? "").replaceAll(/[\w-]*\$\{[^}]*\}/g, " ")).split(/\s+/),
  );
  const names = new Set(given.filter((name) => name !== "" && !UNSTYLED.has(name)));
  expect([...names].filter((name) => !styled.has(name))).toEqual([]);
});

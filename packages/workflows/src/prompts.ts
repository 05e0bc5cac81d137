// The prompt templates of the built-in workflows: built-in text files, users' own templates, their check and expansion.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type JsonObject, type Shape, dictionary, text as anyText } from "@holdfast/core/json";
import { checkNames, optionError, record, text } from "@holdfast/core/options";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";

/** Placeholders of a prompt. A user's template must contain the required ones and may omit the optional ones. */
interface Placeholders {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

/** The prompts of a workflow by name. `prompts/NAME.md` in the workflow's folder is the built-in template. */
export type PromptTable<N extends string = string> = Readonly<Record<N, Placeholders>>;

/** A user's template: its text, or the path of a file in the repository. */
type PromptSource = { readonly text: string } | { readonly path: string };
/** null: the built-in template. */
export type PromptSources<N extends string = string> = Readonly<Record<N, PromptSource | null>>;

/** The templates of a run by prompt name, as its state stores them. */
export type Templates<N extends string = string> = Readonly<Record<N, string>>;
export const TEMPLATES_SHAPE: Shape<Templates> = dictionary(anyText);

/** A workflow's prompts with the name of its folder. */
export interface Prompts<N extends string = string> {
  readonly workflow: string;
  readonly table: PromptTable<N>;
}

/** The text that ships with Holdfast. A bundle has the files beside it, as the sources do. */
export function builtInTemplate(workflow: string, name: string): string {
  return readFileSync(join(import.meta.dirname, workflow, "prompts", `${name}.md`), "utf8");
}

export function promptNames<N extends string>({ table }: Prompts<N>): readonly N[] {
  // The table's type names exactly its keys.
  return Object.keys(table) as N[];
}

/**
 * Reads and checks the templates once, when the run begins. An agent that changes a template file later changes no
 * prompt of this run.
 */
export async function loadTemplates<N extends string>(
  prompts: Prompts<N>,
  sources: PromptSources<N>,
  outputs: Pick<Outputs, "read">,
): Promise<Templates<N>> {
  const loaded: Partial<Record<N, string>> = {};
  for (const name of promptNames(prompts)) {
    const source = sources[name];
    if (source === null) continue;
    const template = "text" in source ? source.text : await readTemplate(outputs, source.path);
    const what = "text" in source ? `The ${name} prompt template` : `The ${name} prompt template ${source.path}`;
    checkTemplate({ what, template, ...prompts.table[name] });
    loaded[name] = template;
  }
  return allTemplates(prompts, loaded);
}

/** The stored templates of a run. A run that began before a prompt existed gets the built-in template for it. */
export function allTemplates<N extends string>(
  prompts: Prompts<N>,
  stored: Readonly<Partial<Record<string, string>>> | null | undefined,
): Templates<N> {
  const entries = promptNames(prompts).map((name) => [name, stored?.[name] ?? builtInTemplate(prompts.workflow, name)]);
  // There is one entry for each name of the table.
  return Object.fromEntries(entries) as Record<N, string>;
}

/** Reads the option `prompts` of a workflow. Throws USAGE for an unknown name. */
export function parsePrompts<N extends string>(prompts: Prompts<N>, options: JsonObject): PromptSources<N> {
  const names = promptNames(prompts);
  const given = record(options, "prompts");
  checkNames(`${prompts.workflow} prompts`, given, names);
  const source = (name: N): PromptSource | null => {
    if (given[name] === undefined || given[name] === null) return null;
    const one = record(given, name);
    checkNames(`${prompts.workflow} prompts.${name}`, one, ["text", "path"]);
    if (Object.keys(one).length !== 1) throw optionError(`prompts.${name}`, one, 'either "text" or "path"');
    return one["path"] === undefined ? { text: text(one, "text") } : { path: text(one, "path") };
  };
  // There is one entry for each name of the table.
  return Object.fromEntries(names.map((name) => [name, source(name)])) as Record<N, PromptSource | null>;
}

async function readTemplate(outputs: Pick<Outputs, "read">, path: string): Promise<string> {
  const found = await outputs.read(path);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `The prompt template ${path} cannot be read in the worktree`,
    hint: "Name a text file of the repository, by its path from the root, that is committed on the base branch.",
    data: { path },
  });
}

/** Placeholders are written `{{name}}` or `{#name#}`. */
const TOKEN = /\{\{\s*([a-z_]+)\s*\}\}|\{#\s*([a-z_]+)\s*#\}/g;

/** Expands in one pass. Inserted text is never expanded again, so a placeholder in an agent's output remains text. */
export function expandTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(TOKEN, (whole, braces: string | undefined, hashes: string | undefined) => {
    const name = braces ?? hashes ?? "";
    return Object.hasOwn(values, name) ? (values[name] ?? whole) : whole;
  });
}

/** Throws CONFIG_INVALID and names every missing placeholder and every unknown one. */
export function checkTemplate(params: Placeholders & { readonly what: string; readonly template: string }): void {
  const used = new Set([...params.template.matchAll(TOKEN)].map((match) => match[1] ?? match[2] ?? ""));
  const missing = params.required.filter((name) => !used.has(name));
  const known = new Set([...params.required, ...params.optional]);
  const unknown = [...used].filter((name) => !known.has(name));
  if (missing.length === 0 && unknown.length === 0) return;
  const parts = [
    ...(missing.length === 0 ? [] : [`lacks the placeholders ${missing.join(", ")}`]),
    ...(unknown.length === 0 ? [] : [`has placeholders that nothing fills: ${unknown.join(", ")}`]),
  ];
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${params.what} ${parts.join(" and ")}`,
    hint: `Write each as {{name}} or {#name#}; known are ${[...known].join(", ")}.`,
    data: { missing, unknown },
  });
}

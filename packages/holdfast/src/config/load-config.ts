import { dirname, join, resolve } from "node:path";
import { fileKind } from "../system/regular-file.ts";
import { mergeConfig } from "./effective-config.ts";
import type { ConfigLayers, EffectiveConfig } from "./effective-config.ts";
import type { ConfigProblem } from "./config-problem.ts";
import type { ImportedErrors } from "./errors/import-aiwg.ts";
import type { ParsedConfig } from "./parse-config.ts";
import { readText } from "./read-text.ts";

export const CONFIG_FILE = "holdfast.config.yaml";

export type LoadedConfig =
  | { readonly ok: true; readonly config: EffectiveConfig }
  | {
      readonly ok: false;
      readonly path: string;
      readonly problems: readonly ConfigProblem[];
      /** Defaults, with the store that the file names where that much can be read: for those who only look. */
      readonly fallback: EffectiveConfig;
    };

export type LoadParams = Omit<ConfigLayers, "file">;

export async function loadConfig(params: LoadParams): Promise<LoadedConfig> {
  const path = findConfig(params.cwd);
  if (path === null) return { ok: true, config: mergeConfig({ ...params, file: null }) };
  const parsed = await parseFile(path);
  const place = { path, directory: dirname(path) };
  if (parsed.ok) {
    const errors = await importErrors(parsed.values.errors?.import, place.directory);
    const file = { ...place, values: parsed.values, lines: parsed.lines };
    if (errors === null || errors.ok)
      return { ok: true, config: mergeConfig({ ...params, file: { ...file, errors: errors?.policy ?? null } }) };
    return { ok: false, path: errors.path, problems: errors.problems, fallback: mergeConfig({ ...params, file }) };
  }
  const { problems, store } = parsed;
  const file =
    store === null
      ? null
      : { ...place, values: { store: store.value }, lines: new Map([["store", store.line]] as const) };
  return { ok: false, path, problems, fallback: mergeConfig({ ...params, file }) };
}

/**
 * Upwards from `cwd` to the root of its repository. Outside a repository only `cwd` itself counts: a file in some
 * parent directory may be somebody else's.
 */
export function findConfig(cwd: string): string | null {
  const root = findRepositoryRoot(cwd) ?? cwd;
  for (let directory = cwd; ; directory = dirname(directory)) {
    const path = join(directory, CONFIG_FILE);
    if (fileKind(path) !== "absent") return path;
    if (directory === root || directory === dirname(directory)) return null;
  }
}

/** Is this inside a bare repository, or inside the git directory of any? Then there is no worktree to put a file into. */
export function inGitDirectory(cwd: string): boolean {
  for (let directory = cwd; ; directory = dirname(directory)) {
    if (fileKind(join(directory, ".git")) !== "absent") return false;
    if (["HEAD", "objects", "refs"].every((name) => fileKind(join(directory, name)) !== "absent")) return true;
    if (directory === dirname(directory)) return false;
  }
}

/** The nearest directory upwards that has a `.git`; null outside a repository. */
export function findRepositoryRoot(cwd: string): string | null {
  for (let directory = cwd; ; directory = dirname(directory)) {
    if (fileKind(join(directory, ".git")) !== "absent") return directory;
    if (directory === dirname(directory)) return null;
  }
}

/** A document of another tool, only ever read. null: none is named. */
async function importErrors(
  named: string | undefined,
  directory: string,
): Promise<(ImportedErrors & { readonly path: string }) | null> {
  if (named === undefined) return null;
  const path = resolve(directory, named);
  const text = readText(path);
  const { importAiwg } = await import("./errors/import-aiwg.ts");
  return { ...importAiwg(text), path };
}

async function parseFile(path: string): Promise<ParsedConfig> {
  const text = readText(path);
  // The YAML parser and the schema cost more to load than most commands to run.
  const { parseConfig } = await import("./parse-config.ts");
  return parseConfig(text);
}

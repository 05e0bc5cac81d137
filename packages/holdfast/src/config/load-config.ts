/** Finds and loads holdfast.config.yaml, and leaves out settings that lack the user's consent. */
import { dirname, join, resolve } from "node:path";
import { fileKind } from "@holdfast/platform/files";
import { type ConfigLayers, type EffectiveConfig, mergeConfig } from "./effective-config.ts";
import type { ConfigProblem } from "@holdfast/formats/settings-file";
import { readText } from "@holdfast/formats/setting-values";
import type { ImportedErrors } from "./import-aiwg.ts";
import type { ConfigFile, ConsentItem } from "./consent.ts";
import type { ParsedConfig } from "./schema.ts";

export const CONFIG_FILE = "holdfast.config.yaml";

export type LoadedConfig =
  | {
      readonly ok: true;
      readonly config: EffectiveConfig;
      /** The file's settings that need consent, allowed or not. */
      readonly consents: readonly ConsentItem[];
    }
  | {
      readonly ok: false;
      readonly path: string;
      readonly problems: readonly ConfigProblem[];
      /** The defaults, with the store that the file names if it can be read and is allowed. */
      readonly fallback: EffectiveConfig;
      readonly consents: readonly ConsentItem[];
    };

export interface LoadParams extends Omit<ConfigLayers, "file"> {
  /** Whether a setting that needs consent may take effect. A setting that may not keeps its default. */
  readonly allows: (item: ConsentItem) => boolean;
}

export async function loadConfig(params: LoadParams): Promise<LoadedConfig> {
  const path = findConfig(params.cwd);
  if (path === null) return { ok: true, config: mergeConfig({ ...params, file: null }), consents: [] };
  const parsed = await parseFile(path);
  const place = { path, directory: dirname(path) };
  if (!parsed.ok) {
    const { problems, store } = parsed;
    const values = store === null ? {} : { store: store.value };
    const lines = new Map(store === null ? [] : [["store", store.line]]);
    const { file, consents } = await allowed({ ...place, values, lines }, params);
    return { ok: false, path, problems, fallback: mergeConfig({ ...params, file }), consents };
  }
  const { file, consents } = await allowed({ ...place, values: parsed.values, lines: parsed.lines }, params);
  const errors = await importErrors(file.values.errors?.import, place.directory);
  if (errors === null || errors.ok)
    return {
      ok: true,
      config: mergeConfig({ ...params, file: { ...file, errors: errors?.policy ?? null } }),
      consents,
    };
  const { problems } = errors;
  return { ok: false, path: errors.path, problems, fallback: mergeConfig({ ...params, file }), consents };
}

/** The file without the settings that may not take effect, and all settings that need consent. */
async function allowed(
  file: ConfigFile,
  params: Pick<LoadParams, "cwd" | "allows">,
): Promise<{ readonly file: ConfigFile; readonly consents: readonly ConsentItem[] }> {
  const { consentItems, withoutKeys } = await import("./consent.ts");
  const consents = consentItems(file, findRepositoryRoot(params.cwd) ?? params.cwd);
  const refused = new Set(consents.filter((item) => !params.allows(item)).map(({ key }) => key));
  if (refused.size === 0) return { file, consents };
  const lines = new Map([...file.lines].filter(([key]) => !refused.has(key)));
  return { file: { ...file, values: withoutKeys(file.values, refused), lines }, consents };
}

/**
 * Searches upwards from `cwd` to the root of its repository. Outside a repository only `cwd` itself counts: a file in a
 * parent directory may belong to another user.
 */
export function findConfig(cwd: string): string | null {
  const root = findRepositoryRoot(cwd) ?? cwd;
  for (let directory = cwd; ; directory = dirname(directory)) {
    const path = join(directory, CONFIG_FILE);
    if (fileKind(path) !== "absent") return path;
    if (directory === root || directory === dirname(directory)) return null;
  }
}

/** Whether `cwd` is inside a bare repository or a git directory. There is no worktree for a config file then. */
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

/** Reads another tool's document, without ever changing it. null: none is named. */
async function importErrors(
  named: string | undefined,
  directory: string,
): Promise<(ImportedErrors & { readonly path: string }) | null> {
  if (named === undefined) return null;
  const path = resolve(directory, named);
  const text = readText(path);
  const { importAiwg } = await import("./import-aiwg.ts");
  return { ...importAiwg(text), path };
}

async function parseFile(path: string): Promise<ParsedConfig> {
  const text = readText(path);
  // Loaded on demand: the YAML parser and the schema take longer to load than most commands to run.
  const { parseConfig } = await import("./schema.ts");
  return parseConfig(text);
}

/** Loads the crunch settings and the prompt templates of a repository, and lists which of their files need consent. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readText } from "@holdfast/formats/setting-values";
import { HoldfastError } from "@holdfast/platform/error";
import { fileKind, xdgHome } from "@holdfast/platform/files";
import { BUILT_IN_NAMES, type BuiltInName, loadPlugin } from "@holdfast/workflows/built-in";
import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import { CRUNCH_DIRECTORY, CRUNCH_FILES, type CrunchSettings } from "@holdfast/workflows/crunch/settings";
import type { CrunchFile, CrunchProblem } from "@holdfast/workflows/crunch/settings-files";
import type { ConsentItem } from "./consent.ts";
import { findRepositoryRoot } from "./load-config.ts";

/**
 * Reads `.holdfast/crunch/` at the root of the repository, over the defaults. Throws CONFIG_INVALID at the first wrong
 * line, with every problem of every file in its data. A file that nothing reads is a problem too, because the user
 * meant it to have an effect.
 */
export async function loadCrunch(cwd: string): Promise<CrunchSettings> {
  const directory = crunchDirectory(cwd);
  const files = filesIn(directory);
  if (files.length === 0) return defaultCrunchSettings;
  // Loaded on demand: the YAML parser and the schema take longer to load than most commands to run.
  const { parseCrunch } = await import("@holdfast/workflows/crunch/settings-files");
  const parsed = parseCrunch(files);
  if (parsed.ok) return parsed.settings;
  throw invalid(directory, parsed.problems);
}

/** Each of these files names agents, prompts them or decides about their work, so each needs consent by its bytes. */
export async function crunchConsents(cwd: string): Promise<readonly ConsentItem[]> {
  const directory = crunchDirectory(cwd);
  const files = filesIn(directory);
  if (files.length === 0) return [];
  const { fileItem } = await import("./consent.ts");
  const root = findRepositoryRoot(cwd) ?? cwd;
  return files.map(({ path, text }) =>
    fileItem({
      path: join(directory, path),
      root,
      text,
      danger: path === "agents.yaml" ? "executes" : "prompt",
      uses: ["crunch"],
    }),
  );
}

function crunchDirectory(cwd: string): string {
  return join(findRepositoryRoot(cwd) ?? cwd, CRUNCH_DIRECTORY);
}

function filesIn(directory: string): readonly CrunchFile[] {
  return ["", "graphs/"]
    .flatMap((below) => namesIn(join(directory, below)).map((name) => `${below}${name}`))
    .filter((path) => CRUNCH_FILES.has(path) || /\.ya?ml$/i.test(path))
    .map((path) => ({ path, text: readText(join(directory, path)) }));
}

function namesIn(directory: string): readonly string[] {
  if (fileKind(directory) !== "directory") return [];
  try {
    return readdirSync(directory).toSorted();
  } catch (cause) {
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Cannot read ${directory}`,
      hint: "Make it a directory that you can read.",
      data: { path: directory },
      cause,
    });
  }
}

function invalid(directory: string, problems: readonly CrunchProblem[]): HoldfastError {
  const [first] = problems;
  const place = first === undefined ? "" : `/${first.path}:${first.line}:${first.column}: ${first.message}`;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${CRUNCH_DIRECTORY}${place}${more}`,
    hint: first?.hint ?? "`holdfast config --crunch` prints valid files once this one is fixed or moved.",
    data: { path: directory, problems, excerpt: first?.excerpt ?? "" },
  });
}

/** Where a repository, or the user's configuration directory, has its own prompt templates: `WORKFLOW/NAME.md`. */
export const PROMPT_DIRECTORY = ".holdfast/prompts";

/** A prompt of a workflow, with the template that replaces the built-in one. */
export interface PromptFile {
  readonly workflow: BuiltInName;
  readonly name: string;
  readonly from: "user" | "repository";
  readonly path: string;
  readonly text: string;
}

interface PromptPlaces {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** `$XDG_CONFIG_HOME/holdfast/prompts`, else `~/.config/holdfast/prompts`. */
export function userPromptDirectory(env: PromptPlaces["env"]): string {
  return join(xdgHome(env, "XDG_CONFIG_HOME"), "holdfast/prompts");
}

/** The templates that replace built-in ones: the user's, and the repository's where the user has none. */
export function findPromptFiles({ cwd, env }: PromptPlaces): readonly PromptFile[] {
  const places = [
    { from: "user", directory: userPromptDirectory(env) },
    { from: "repository", directory: join(findRepositoryRoot(cwd) ?? cwd, PROMPT_DIRECTORY) },
  ] as const;
  const found = new Map<string, PromptFile>();
  for (const { from, directory } of places) {
    for (const workflow of BUILT_IN_NAMES) {
      for (const file of namesIn(join(directory, workflow))) {
        const path = join(directory, workflow, file);
        const name = file.replace(/\.md$/, "");
        const key = `${workflow}/${name}`;
        if (!found.has(key)) found.set(key, { workflow, name, from, path, text: readText(path) });
      }
    }
  }
  return [...found.values()];
}

/** A repository's template changes what agents are asked to do, so it needs consent by its bytes. */
export async function promptConsents(places: PromptPlaces): Promise<readonly ConsentItem[]> {
  const files = findPromptFiles(places).filter(({ from }) => from === "repository");
  if (files.length === 0) return [];
  const { fileItem } = await import("./consent.ts");
  const root = findRepositoryRoot(places.cwd) ?? places.cwd;
  return files.map(({ path, text, workflow }) => fileItem({ path, root, text, danger: "prompt", uses: [workflow] }));
}

/** A template that replaces a built-in one. */
export type OwnPrompt = Pick<PromptFile, "path" | "text"> & { readonly from: PromptFile["from"] | "setting" };

/**
 * The own templates of a new run: the user's templates, then the files that `impl.prompts` names, then those of the
 * repository. Throws CONFIG_INVALID, before any work, for a template without its placeholders and for a file that is not a
 * prompt: its author meant it to have an effect.
 */
export async function readPrompts(
  workflow: BuiltInName,
  files: readonly PromptFile[],
  named: Readonly<Record<string, string | null>>,
): Promise<Readonly<Record<string, OwnPrompt>>> {
  const table = (await loadPlugin(workflow))?.prompts.table ?? {};
  const { checkTemplate } = await import("@holdfast/workflows/prompts");
  const ours = files.filter((file) => file.workflow === workflow);
  const unknown = ours.find(({ name, path }) => !Object.hasOwn(table, name) || !path.endsWith(`${name}.md`));
  if (unknown !== undefined) throw notPrompt(unknown, Object.keys(table));
  const prompts: Record<string, OwnPrompt> = {};
  for (const [name, placeholders] of Object.entries(table)) {
    const own = ours.find((file) => file.name === name);
    const setting = own?.from === "user" ? null : (named[name] ?? null);
    const prompt = setting === null ? own : { from: "setting" as const, path: setting, text: readText(setting) };
    if (prompt === undefined) continue;
    const { from, path, text } = prompt;
    checkTemplate({ what: `The prompt template ${path}`, template: text, ...placeholders });
    prompts[name] = { from, path, text };
  }
  return prompts;
}

function notPrompt({ workflow, path }: PromptFile, names: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${path} is not a prompt of ${workflow}`,
    hint: `Name it ${names.map((name) => `${name}.md`).join(", ")}, or move it away. \`holdfast config --prompts\` prints all prompts.`,
    data: { path },
  });
}

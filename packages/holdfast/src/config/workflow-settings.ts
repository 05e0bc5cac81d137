/** Loads the crunch settings of a repository and lists which of their files need consent. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readText } from "@holdfast/formats/setting-values";
import { HoldfastError } from "@holdfast/platform/error";
import { fileKind } from "@holdfast/platform/files";
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

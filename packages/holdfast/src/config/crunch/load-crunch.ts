<<<<<<< HEAD
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import type { CrunchSettings } from "../../core/crunch/settings.ts";
import { readRegularFile } from "../../system/regular-file.ts";
import { findRepositoryRoot } from "../load-config.ts";
import { CRUNCH_DIRECTORY, CRUNCH_FILES } from "./crunch-files.ts";
import type { CrunchFile } from "./parse-crunch.ts";

/**
 * The settings of crunch in this repository: its own files over those that are built in. CONFIG_INVALID points at the first line that cannot be
 * meant, with all of them as data.
 */
export async function loadCrunch(cwd: string): Promise<CrunchSettings> {
  const directory = join(findRepositoryRoot(cwd) ?? cwd, CRUNCH_DIRECTORY);
  const files = [...CRUNCH_FILES.keys()].flatMap((path) => readFile(directory, path));
  // The YAML parser and the schemas cost more to load than most commands to run.
  const { parseCrunch } = await import("./parse-crunch.ts");
  const parsed = parseCrunch(files);
  if (parsed.ok) return parsed.settings;
  const [first] = parsed.problems;
  const more = parsed.problems.length > 1 ? ` (and ${parsed.problems.length - 1} more)` : "";
  const place = first === undefined ? CRUNCH_DIRECTORY : `${first.path}:${first.line}:${first.column}`;
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${CRUNCH_DIRECTORY}/${place}: ${first?.message ?? "it does not parse"}${more}`,
    hint: first?.hint ?? "`holdfast config --crunch` prints right files.",
    data: { path: directory, problems: parsed.problems, excerpt: first?.excerpt ?? "" },
  });
}

function readFile(directory: string, path: string): readonly CrunchFile[] {
  const place = join(directory, path);
  const file = readRegularFile({ path: place, maxBytes: 1_000_000 });
  if (file.kind === "absent") return [];
  if (file.kind === "read") return [{ path, text: file.bytes.toString("utf8") }];
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `Cannot read ${place}: ${file.why}`,
    hint: "Make it a plain file that you may read, of at most 1 MB.",
    data: { path: place },
=======
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { defaultCrunchSettings } from "../../core/crunch/default-settings.ts";
import type { CrunchSettings } from "../../core/crunch/settings.ts";
import { fileKind } from "../../system/regular-file.ts";
import { findRepositoryRoot } from "../load-config.ts";
import { readText } from "../read-text.ts";
import { CRUNCH_DIRECTORY, CRUNCH_FILES } from "./crunch-files.ts";
import type { CrunchFile, CrunchProblem } from "./parse-crunch.ts";

/**
 * What `.holdfast/crunch/` at the root of the repository says, over the defaults. CONFIG_INVALID at the first wrong line, with every problem of every file in
 * its data. A file that nothing reads is a problem too: it was meant to say something.
 */
export async function loadCrunch(cwd: string): Promise<CrunchSettings> {
  const directory = join(findRepositoryRoot(cwd) ?? cwd, CRUNCH_DIRECTORY);
  const files = filesIn(directory);
  if (files.length === 0) return defaultCrunchSettings;
  // The YAML parser and the schema cost more to load than most commands to run.
  const { parseCrunch } = await import("./parse-crunch.ts");
  const parsed = parseCrunch(files);
  if (parsed.ok) return parsed.settings;
  throw invalid(directory, parsed.problems);
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
      hint: "Make it a folder that you may read.",
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
    hint: first?.hint ?? "`holdfast config --crunch` prints right files once this one is mended or moved away.",
    data: { path: directory, problems, excerpt: first?.excerpt ?? "" },
>>>>>>> crunch-domain
  });
}

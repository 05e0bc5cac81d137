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
  });
}

import { statSync } from "node:fs";
import { basename, join } from "node:path";
import type { ExportName } from "../../core/format-names.ts";
import type { Checkpoint } from "../../core/checkpoint.ts";
import type { Run } from "../../core/run.ts";
import type { Encoded, ForeignCheckpoint, FormatName, Loss } from "../../formats/format.ts";
import { asForeign } from "./as-foreign.ts";
import { formatNamed } from "./choose-format.ts";
import { writeCrunchDirectory, writeDocument } from "./write-foreign.ts";
import type { Written } from "./write-foreign.ts";

/** One checkpoint as one document, and all that the document cannot carry. */
export function encodeCheckpoint(
  run: Pick<Run, "workflow" | "work">,
  checkpoint: Checkpoint,
  to: FormatName,
): { readonly foreign: ForeignCheckpoint; readonly encoded: Encoded } {
  const { foreign, losses } = asForeign(run, checkpoint, to);
  const encoded = formatNamed(to).encode(foreign);
  return { foreign, encoded: { ...encoded, losses: eachOnce([...losses, ...encoded.losses]) } };
}

/** To a file, or into a directory: there under the name that the format gives it, with index and `latest` where it has them. */
export function writeExport(params: {
  readonly to: ExportName;
  readonly foreign: readonly ForeignCheckpoint[];
  readonly encoded: readonly Encoded[];
  /** Absolute. */
  readonly output: string;
  /** The user wrote it with a slash at its end. */
  readonly directory: boolean;
}): Written {
  const { to, encoded, output } = params;
  const [only] = encoded;
  const directory = params.directory || encoded.length > 1 || isDirectory(output);
  const losses = eachOnce(encoded.flatMap((one) => one.losses));
  if (directory && to === "crunch-yaml") return { paths: writeCrunchDirectory(output, params.foreign).paths, losses };
  if (!directory && only !== undefined) return writeDocument(only, output);
  const names = distinctNames(encoded.map(({ path }) => basename(path)));
  const paths = encoded.flatMap((one, at) => writeDocument(one, join(output, names[at] ?? "")).paths);
  return { paths, losses };
}

/** Some formats name two checkpoints alike; of what is written together none may take another's place. */
function distinctNames(names: readonly string[]): readonly string[] {
  const seen = new Map<string, number>();
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : name.replace(/^([^.]*)/, `$1-${count}`);
  });
}

/** The same loss of many checkpoints is told once. */
export function eachOnce(losses: readonly Loss[]): readonly Loss[] {
  return [...new Map(losses.map((loss) => [`${loss.path}\n${loss.why}`, loss])).values()];
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

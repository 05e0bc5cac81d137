import { statSync } from "node:fs";
import { basename, join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import type { ExportName } from "../../core/format-names.ts";
import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import type { Run } from "../../core/run/run.ts";
import type { CrunchConfig } from "../../formats/crunch/crunch-config.ts";
import { idOfPath } from "../../formats/crunch/crunch-names.ts";
import type { Encoded, ForeignCheckpoint, FormatName, Loss } from "../../formats/format.ts";
import { encodeLive } from "../../formats/loop-json/encode-live.ts";
import { liveLoop } from "../../formats/loop-json/live-loop.ts";
import { compressFor } from "../../system/compression.ts";
import { asForeign } from "./as-foreign.ts";
import { formatNamed } from "./choose-format.ts";
import { crunchSettingsFor } from "./crunch-settings.ts";
import { writeCrunchDirectory, writeDocument } from "./write-foreign.ts";
import type { Written } from "./write-foreign.ts";

/** One checkpoint as one document, and all that the document cannot carry. */
export function encodeCheckpoint(
  run: Pick<Run, "id" | "workflow" | "work" | "forkedFrom">,
  checkpoint: Checkpoint,
  to: FormatName,
): { readonly foreign: ForeignCheckpoint; readonly encoded: Encoded } {
  const { foreign, losses } = asForeign(run, checkpoint, to);
  // Of a loop that we carry the format has words for more than the planes alone would tell.
  const live = to === "loop-json" ? liveLoop(run, checkpoint.planes) : null;
  const encoded =
    live === null
      ? formatNamed(to).encode(foreign)
      : encodeLive({ foreign, live, summary: checkpoint, store: null, retentionDays: null });
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
  if (directory && to === "crunch-yaml") {
    const written = writeCrunch(output, params);
    return { ...written, losses: eachOnce([...losses, ...written.losses]) };
  }
  if (!directory && only !== undefined) return writeDocument(only, output);
  const names = distinctNames(encoded.map(({ path }) => basename(path)));
  const paths = encoded.flatMap((one, at) => writeDocument(one, join(output, names[at] ?? "")).paths);
  return { paths, removed: [], losses };
}

/** A directory that crunch's own configuration speaks of is written by it; what cannot be kept there is refused, not dropped. */
function writeCrunch(
  directory: string,
  { foreign, encoded }: { readonly foreign: readonly ForeignCheckpoint[]; readonly encoded: readonly Encoded[] },
): Written {
  const config = crunchSettingsFor(directory, foreign[0]?.work ?? { kind: "none" });
  if (config?.enabled === false)
    throw new HoldfastError({
      code: "USAGE",
      message: `Nothing is saved in ${directory}: .claude/checkpoint-config.yaml says enabled: false`,
      hint: "Switch it on there, or export into another directory.",
    });
  const limit = config?.retention.maxBytes ?? null;
  const large = encoded.find(({ bytes }) => limit !== null && packedSize(config, bytes) > limit);
  if (large !== undefined)
    throw new HoldfastError({
      code: "USAGE",
      message: `${idOfPath(large.path)} is larger than the ${limit} bytes that max_size_mb of .claude/checkpoint-config.yaml allows`,
      hint: "Raise it there, or export into another directory. Nothing was written.",
    });
  // What is exported was asked for: the rules make room for it among what the same export wrote, and touch nothing else.
  const ours = new Set(encoded.map(({ path }) => idOfPath(path)));
  return writeCrunchDirectory({ directory, add: foreign, config, ours });
}

function packedSize(config: CrunchConfig | null, bytes: Uint8Array): number {
  return compressFor(config?.compress === true ? "a.gz" : "a", bytes).length;
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

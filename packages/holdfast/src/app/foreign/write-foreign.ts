import { readFileSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { crunchLocation } from "../../formats/crunch/crunch-config.ts";
import type { CrunchConfig } from "../../formats/crunch/crunch-config.ts";
import { readCrunchDirectory } from "../../formats/crunch/crunch-directory.ts";
import type { decodeAgain } from "../../formats/crunch/decode-again.ts";
import type { CrunchLimits } from "../../formats/crunch/plan-crunch-limits.ts";
import { planCrunchWrite } from "../../formats/crunch/plan-crunch-write.ts";
import type { CrunchAction } from "../../formats/crunch/plan-crunch-write.ts";
import type { Encoded, ForeignCheckpoint, Loss } from "../../formats/format.ts";
import { makeDurableDirectory, sweepTemporary, writeDurable } from "../../system/durable-file.ts";
import { removeDurable, writeDurableLink } from "../../system/durable-link.ts";
import { compressFor } from "../../system/compression.ts";
import { readSource } from "./read-source.ts";

export interface Written {
  /** Absolute, in the order of writing; empty: everything was there already. */
  readonly paths: readonly string[];
  /** Gone by the other tool's own rules. */
  readonly removed: readonly string[];
  readonly losses: readonly Loss[];
}

/** One document to one place, whole or not at all, packed when its name says so. The same bytes again are not written again. */
export function writeDocument(encoded: Pick<Encoded, "bytes" | "losses">, path: string): Written {
  const { losses } = encoded;
  const data = compressFor(path, encoded.bytes);
  if (sameBytes(path, data)) return { paths: [], removed: [], losses };
  makeDurableDirectory(dirname(path), 0o755);
  sweepTemporary(dirname(path), LEFT_BEHIND);
  writeDurable({ path, data, mode: "replace" });
  return { paths: [path], removed: [], losses };
}

/** Longer than anybody takes from writing a file to giving it its name. */
const LEFT_BEHIND = { olderThanMs: 5000 };

/** Below `root`, where the tool that reads it looks for it. */
export function placeUnder(root: string, relative: string): string {
  const place = resolve(root, relative);
  if (place.startsWith(root.endsWith(sep) ? root : root + sep)) return place;
  throw new HoldfastError({ code: "INTERNAL", message: `${relative} leads out of ${root}` });
}

/** What comes with a clone may hold links: nothing that is written unasked leaves the repository through one. */
export function refuseOutside(root: string, place: string): void {
  // One that is yet to be made holds no links.
  if (statSync(root, { throwIfNoEntry: false }) === undefined) return;
  const home = realpathSync(root);
  let there = place;
  while (statSync(there, { throwIfNoEntry: false }) === undefined && dirname(there) !== there) there = dirname(there);
  const real = realpathSync(there);
  if (real === home || real.startsWith(home + sep)) return;
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `${place} is reached through a link that leads out of ${root}; nothing was written there`,
    hint: "Remove the link, or name another place: `mirror.directory` in holdfast.config.yaml, for crunch `location` in .claude/checkpoint-config.yaml.",
    data: { root, path: place },
  });
}

/** Where crunch keeps the checkpoints of this piece of work, below the root. */
export function crunchPlace(
  root: string,
  config: CrunchConfig | null,
  checkpoint: Pick<ForeignCheckpoint, "work">,
): string {
  const issue = checkpoint.work.kind === "issue" ? checkpoint.work.number : null;
  return placeUnder(root, crunchLocation(config?.location ?? ".claude/crunch/{issue}/checkpoints", issue));
}

/** Files, index and `latest` of a crunch directory, in an order that leaves it whole wherever this is cut. */
export function writeCrunchDirectory(params: {
  readonly directory: string;
  readonly add: readonly ForeignCheckpoint[];
  /** Crunch's own, where this is the directory that it speaks of. */
  readonly config: CrunchConfig | null;
  /** Ids of all that the run has: nothing else is removed by the config's rules. */
  readonly ours: ReadonlySet<string>;
  /** A directory that is begun now hides itself from git, with all that it will hold. */
  readonly hide?: boolean;
  /** Of one who writes here again and again. */
  readonly reader?: ReturnType<typeof decodeAgain>;
}): Written {
  const { directory, add, config, ours, reader } = params;
  makeDurableDirectory(directory, 0o755);
  // A kill may have left something although nothing is to be written now.
  sweepTemporary(directory, LEFT_BEHIND);
  if (params.hide === true && readdirSync(directory).length === 0)
    writeDocument({ bytes: new TextEncoder().encode("*\n"), losses: [] }, join(directory, ".gitignore"));
  const source = readSource(directory, directory);
  if (source.kind !== "directory")
    throw new HoldfastError({ code: "USAGE", message: `${directory} is not a directory`, hint: "Name a directory." });
  reader?.keepOnly(source.files);
  const plan = planCrunchWrite({
    directory: readCrunchDirectory({ files: source.files, link: source.link }, reader?.decode),
    add,
    links: true,
    ...(config === null ? {} : { limits: limitsOf(directory, config, ours) }),
    suffix: config?.compress === true ? ".gz" : "",
  });
  const paths = plan.actions.flatMap((action) => (action.kind === "remove" ? [] : applyWrite(directory, action)));
  const removed = plan.actions.flatMap((action) => (action.kind === "remove" ? [remove(directory, action.name)] : []));
  return { paths, removed, losses: [...plan.losses.flatMap(({ losses }) => losses), ...plan.limited] };
}

function limitsOf(directory: string, { retention }: CrunchConfig, ours: ReadonlySet<string>): CrunchLimits {
  return {
    retention,
    ours,
    sizeOf: (name, bytes) =>
      bytes === null
        ? (statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0)
        : compressFor(name, bytes).length,
  };
}

/** Removals come last in every plan: by then nothing names the files. */
function remove(directory: string, name: string): string {
  const path = join(directory, basename(name));
  removeDurable(path);
  return path;
}

function applyWrite(directory: string, action: Exclude<CrunchAction, { readonly kind: "remove" }>): readonly string[] {
  const path = join(directory, basename(action.name));
  if (action.kind === "write") return writeDocument({ bytes: action.bytes, losses: [] }, path).paths;
  if (writeDurableLink({ path, target: action.target }) === "made") return [path];
  // A system without links gets a file that holds the name.
  return writeDocument({ bytes: new TextEncoder().encode(`${action.target}\n`), losses: [] }, path).paths;
}

function sameBytes(path: string, bytes: Uint8Array): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size === bytes.length && readFileSync(path).equals(bytes);
}

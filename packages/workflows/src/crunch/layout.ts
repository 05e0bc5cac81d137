// Crunch's directory in the repository: its configuration, and the checkpoints, index and `latest` that runs write there.

import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { RunSummary, Work } from "@holdfast/core/run";
import { type CheckpointRef, type Store, allCheckpoints } from "@holdfast/core/store";
import { compressFor } from "@holdfast/formats/compression";
import {
  type CrunchConfig,
  type CrunchTriggers,
  crunchLocation,
  defaultCrunchConfig,
  parseCrunchConfig,
} from "@holdfast/formats/crunch-config";
import { type CrunchFile, readCrunchDirectory } from "@holdfast/formats/crunch-directory";
import { type CrunchLimits, type DirectoryAction, planCrunchWrite } from "@holdfast/formats/crunch-directory";
import { idFromPath } from "@holdfast/formats/crunch-document";
import { isSeedTrigger } from "@holdfast/formats/crunch-words";
import { cachedDecoder } from "@holdfast/formats/crunch-yaml";
import type { Encoded, ExternalCheckpoint, Loss } from "@holdfast/formats/format";
import { readSourceFiles } from "@holdfast/formats/source-files";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import {
  makeDurableDirectory,
  readRegularFile,
  removeDurable,
  removeStaleTemporaryFiles,
  writeDurableSymlink,
} from "@holdfast/platform/files";
import {
  LEFT_BEHIND,
  LayoutFiles,
  assertInside,
  mirrorCheckpoints,
  resolveInside,
  writeDocument,
} from "../layout-files.ts";
import { Mirror, encodeCheckpoint, uniqueLosses } from "../mirror.ts";
import type { EncodedCheckpoint, LayoutLocation, WorkflowLayout, WriteResult } from "../plugin.ts";
import { describeCrunchRun, outputFiles } from "./document-members.ts";

export const crunchLayout: WorkflowLayout = {
  describe: describeCrunchRun,
  mirror: (place, { id }) => crunchMirror(place, id),
  follow(place, run, listen) {
    let mirror = crunchMirror(place, run);
    const catchUp = async (): Promise<void> => {
      try {
        await mirror.catchUp();
      } catch (error) {
        // The new mirror finds in the files what the failed one had written.
        mirror = crunchMirror(place, run);
        throw error;
      }
    };
    const what = `Crunch's directory ${join(place.root, ".claude/crunch")}`;
    return mirrorCheckpoints({ run, listen, what, catchUp });
  },
  exportTo,
  remove: removeRunFiles,
};

/** Runs of every workflow can be mirrored into crunch's directory. */
function crunchMirror({ adapters, root }: LayoutLocation, run: string): Mirror {
  return new Mirror({ adapters, run, to: "crunch-yaml", root, write: directoryWriter(root) });
}

function directoryWriter(root: string): (run: RunSummary, fresh: readonly Checkpoint[]) => WriteResult {
  /** Crunch ids of the run's checkpoints. The mirror may remove only these. */
  const ours = new Set<string>();
  const reader = cachedDecoder();
  return (run, fresh) => {
    // A run of the crunch workflow follows crunch's rules, or their defaults if no configuration exists.
    const own = run.workflow === "crunch";
    const config = readCrunchSettings(root) ?? (own ? defaultCrunchConfig() : null);
    const all = fresh.map((checkpoint) => encodeCheckpoint(run, checkpoint, "crunch-yaml", crunchLayout));
    for (const { encoded } of all) ours.add(idFromPath(encoded.path));
    const { wanted, losses } = wantedBy(config, all);
    const [first] = wanted;
    if (first === undefined) return { paths: [], removed: [], losses };
    const directory = checkpointDirectoryFor(root, config, first.external);
    assertInside(root, directory);
    // A document names its outputs, so they are written first.
    const outputs = writeOutputs(root, wanted);
    const add = wanted.map(({ external }) => external);
    const written = writeCrunchDirectory({ directory, add, config, ours, hide: own, reader });
    const encoded = wanted.flatMap((one) => one.encoded.losses);
    return {
      ...written,
      paths: [...outputs, ...written.paths],
      losses: uniqueLosses([...losses, ...encoded, ...written.losses]),
    };
  };
}

/**
 * Removes the run's checkpoints from crunch's directory, and its outputs as far as no later run has replaced them. A
 * directory without checkpoints goes too.
 */
async function removeRunFiles({ adapters, root }: LayoutLocation, run: RunSummary): Promise<void> {
  const files = new LayoutFiles(root);
  const { own, session } = await readOwnDocuments(adapters.store, run);
  for (const [path, text] of new Map(own.flatMap(({ external }) => [...outputFiles(external)]))) {
    const place = dirname(path);
    if (!files.isOwn(place) || textOf(files, path) !== text) continue;
    files.remove(place, [basename(path)]);
    removeIfUnused(files, place, HIDDEN);
  }
  const directory = relative(root, checkpointDirectoryFor(root, readValid(root), run));
  if (own.length === 0 || !files.isOwn(directory)) return;
  const ours = new Set(own.map(({ encoded }) => idFromPath(encoded.path)));
  const remove = ({ checkpoint: { id, original } }: CrunchFile): boolean =>
    ours.has(id ?? "") || (session !== null && original?.document["session_id"] === session);
  writeCrunchDirectory({ directory: join(root, directory), add: [], config: null, ours, remove });
  removeIfUnused(files, directory, [...HIDDEN, "index.yaml", "index.json"]);
}

/**
 * The documents of the run's own checkpoints, oldest first. `session` is in all of them, also in those whose checkpoint
 * the store has dropped; null: files of another tool have the same one.
 */
async function readOwnDocuments(
  store: Store,
  run: RunSummary,
): Promise<{ readonly own: readonly EncodedCheckpoint[]; readonly session: string | null }> {
  const own: EncodedCheckpoint[] = [];
  const summaries = (await Array.fromAsync(allCheckpoints(store, run.id))).toReversed();
  for (const summary of summaries) {
    if (summary.quarantined || summary.trigger === "import") continue;
    const checkpoint = await readWhole(store, summary);
    if (checkpoint !== null) own.push(encodeCheckpoint(run, checkpoint, "crunch-yaml", crunchLayout));
  }
  const named = own.at(-1)?.external.described?.members["session_id"];
  const isImported = summaries.some(({ trigger }) => trigger === "import");
  return { own, session: typeof named === "string" && !isImported ? named : null };
}

/** null for a damaged checkpoint: its run can be removed all the same. */
async function readWhole(store: Store, ref: CheckpointRef): Promise<Checkpoint | null> {
  try {
    return await store.getCheckpoint(ref);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "STORE_CORRUPT") return null;
    throw error;
  }
}

const HIDDEN: readonly string[] = [".gitignore"];

/** Removes a directory that holds only these files, and its parents as far as they are empty. */
function removeIfUnused(files: LayoutFiles, directory: string, derived: readonly string[]): void {
  const left = files.list(directory);
  // A `.gitignore` with other rules is the user's.
  const isUnused = left.every((name) =>
    name === ".gitignore" ? textOf(files, `${directory}/${name}`) === "*\n" : derived.includes(name),
  );
  if (!isUnused) return;
  files.remove(directory, left);
  const parents = [directory, dirname(directory), dirname(dirname(directory))];
  files.removeEmpty(parents.filter((path) => path !== "."));
}

function textOf(files: LayoutFiles, path: string): string | null {
  const bytes = files.read(path);
  return bytes === null ? null : new TextDecoder().decode(bytes);
}

/** Writes the outputs that are in no file of the repository. A later checkpoint has the newer text of a repeated node. */
function writeOutputs(root: string, wanted: readonly EncodedCheckpoint[]): readonly string[] {
  const files = new Map(wanted.flatMap(({ external }) => [...outputFiles(external)]));
  return [...files].flatMap(([relative, text]) => {
    const path = resolveInside(root, relative);
    const directory = dirname(path);
    assertInside(root, directory);
    const documents = [
      { path: join(directory, ".gitignore"), text: "*\n" },
      { path, text },
    ];
    return documents.flatMap(
      (one) => writeDocument({ bytes: new TextEncoder().encode(one.text), losses: [] }, one.path).paths,
    );
  });
}

/**
 * Selects the checkpoints that crunch has a trigger for and that its configuration saves. Manual and interrupt checkpoints are saved whenever saving
 * is enabled.
 */
function wantedBy(
  config: CrunchConfig | null,
  all: readonly EncodedCheckpoint[],
): { readonly wanted: readonly EncodedCheckpoint[]; readonly losses: readonly Loss[] } {
  const shown = all.filter(({ external }) => isSeedTrigger(external.trigger));
  if (config === null) return { wanted: shown, losses: [] };
  const remarks = config.remarks.map(({ path, text }) => ({ path: `checkpoint-config.yaml#${path}`, why: text }));
  if (!config.enabled) {
    const why = "checkpoint-config.yaml has enabled: false, so nothing is written";
    return { wanted: [], losses: [...remarks, { path: "checkpoints", why }] };
  }
  const wanted = shown.filter(({ external }) => config.triggers[external.trigger].shown);
  const off = new Set(shown.filter((one) => !wanted.includes(one)).map(({ external }) => external.trigger));
  const losses = [...off].map((trigger) => ({
    path: `checkpoints.${trigger}`,
    why: "checkpoint-config.yaml disables this trigger",
  }));
  return { wanted, losses: [...remarks, ...losses] };
}

/**
 * A directory that crunch's own configuration names is written by that configuration. A checkpoint that would not be
 * kept there is rejected, not dropped silently.
 */
function exportTo(
  directory: string,
  { external, encoded }: { readonly external: readonly ExternalCheckpoint[]; readonly encoded: readonly Encoded[] },
): WriteResult {
  const config = crunchSettingsFor(directory, external[0]?.work ?? { kind: "none" });
  if (config?.enabled === false)
    throw usageError(
      `Cannot export to ${directory}: .claude/checkpoint-config.yaml has enabled: false`,
      "Enable it there, or export to another directory.",
    );
  const limit = config?.retention.maxBytes ?? null;
  const large = encoded.find(({ bytes }) => limit !== null && packedSize(config, bytes) > limit);
  if (large !== undefined)
    throw usageError(
      `${idFromPath(large.path)} is larger than the ${limit} bytes that max_size_mb of .claude/checkpoint-config.yaml allows`,
      "Raise the limit there, or export to another directory. Nothing was written.",
    );
  // The user asked for these exports. So retention may remove only what the same export wrote.
  const ours = new Set(encoded.map(({ path }) => idFromPath(path)));
  return writeCrunchDirectory({ directory, add: external, config, ours });
}

function packedSize(config: CrunchConfig | null, bytes: Uint8Array): number {
  return compressFor(config?.compress === true ? "a.gz" : "a", bytes).length;
}

/** Reads `.claude/checkpoint-config.yaml` of the repository; null if it does not exist. */
function readCrunchSettings(root: string): CrunchConfig | null {
  const path = join(root, ".claude/checkpoint-config.yaml");
  const read = readRegularFile({ path, maxBytes: 1024 * 1024 });
  if (read.kind === "absent") return null;
  if (read.kind === "refused")
    throw new HoldfastError({ code: "FORMAT_DAMAGED", message: `${path} cannot be read: ${read.why}` });
  return parseCrunchConfig({ path, bytes: read.bytes, compression: "none" });
}

/**
 * Finds the configuration that applies to this directory: that of a repository above it whose `location` resolves to
 * the directory. Returns null if there is none.
 */
function crunchSettingsFor(directory: string, work: Work): CrunchConfig | null {
  for (let root = dirname(resolve(directory)); ; root = dirname(root)) {
    const config = readHere(root, directory);
    if (config !== null && checkpointDirectoryFor(root, config, { work }) === resolve(directory)) return config;
    if (dirname(root) === root) return null;
  }
}

/**
 * An unreadable configuration is an error only for a directory that it could apply to, not for every directory below
 * the root.
 */
function readHere(root: string, directory: string): CrunchConfig | null {
  try {
    return readCrunchSettings(root);
  } catch (error) {
    if (resolve(directory).startsWith(join(root, ".claude"))) throw error;
    return null;
  }
}

/**
 * Reads the file each time: a change during a run takes effect from the next checkpoint. A file that became invalid
 * during a run has the default triggers: nothing may be lost because of it, and the mirror reports it.
 */
export function readCrunchTriggers(root: string): CrunchTriggers {
  return (readValid(root) ?? defaultCrunchConfig()).triggers;
}

function readValid(root: string): CrunchConfig | null {
  try {
    return readCrunchSettings(root);
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** Throws CONFIG_INVALID with line and column. A run checks this before it changes anything. */
export function checkCrunchSettings(root: string): void {
  try {
    readCrunchSettings(root);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const { line, column } = error.data;
    const place = [".claude/checkpoint-config.yaml", line, column].filter((part) => part !== undefined).join(":");
    throw new HoldfastError({
      code: "CONFIG_INVALID",
      message: `${place}: ${error.message.replace(/^.*?\(crunch-yaml\): /, "")}`,
      hint: "Fix this value, or move the file away: without it the defaults apply. docs/formats.md has the keys.",
      data: { ...error.data },
      cause: error,
    });
  }
}

/** The directory of crunch checkpoints for this work, below the root. */
function checkpointDirectoryFor(
  root: string,
  config: CrunchConfig | null,
  checkpoint: Pick<ExternalCheckpoint, "work">,
): string {
  const issue = checkpoint.work.kind === "issue" ? checkpoint.work.number : null;
  return resolveInside(root, crunchLocation(config?.location ?? ".claude/crunch/{issue}/checkpoints", issue));
}

/**
 * Writes checkpoint files, index and `latest` of a crunch directory. The order keeps the directory consistent if the
 * process dies at any point.
 */
function writeCrunchDirectory(params: {
  readonly directory: string;
  readonly add: readonly ExternalCheckpoint[];
  /** Crunch's own config, if it describes this directory; otherwise null. */
  readonly config: CrunchConfig | null;
  /** Ids of all checkpoints of the run. The config's retention rules remove nothing else. */
  readonly ours: ReadonlySet<string>;
  /** Selects files to remove. */
  readonly remove?: (file: CrunchFile) => boolean;
  /** Hide a new directory and all its content from git. */
  readonly hide?: boolean;
  /** A cached decoder, for a caller that writes here repeatedly. */
  readonly reader?: ReturnType<typeof cachedDecoder>;
}): WriteResult {
  const { directory, add, config, ours, reader } = params;
  makeDurableDirectory(directory, 0o755);
  // A killed process may have left temporary files, even if there is nothing to write now.
  removeStaleTemporaryFiles(directory, LEFT_BEHIND);
  if (params.hide === true && readdirSync(directory).length === 0)
    writeDocument({ bytes: new TextEncoder().encode("*\n"), losses: [] }, join(directory, ".gitignore"));
  const source = readSourceFiles(directory, directory);
  if (source.kind !== "directory") throw usageError(`${directory} is not a directory`, "Name a directory.");
  reader?.keepOnly(source.files);
  const plan = planCrunchWrite({
    directory: readCrunchDirectory({ files: source.files, link: source.link }, reader?.decode),
    add,
    links: true,
    ...(config === null ? {} : { limits: limitsOf(directory, config, ours) }),
    ...(params.remove === undefined ? {} : { remove: params.remove }),
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

/** Removals come last in every plan: by then the index no longer names the files. */
function remove(directory: string, name: string): string {
  const path = join(directory, basename(name));
  removeDurable(path);
  return path;
}

function applyWrite(
  directory: string,
  action: Exclude<DirectoryAction, { readonly kind: "remove" }>,
): readonly string[] {
  const path = join(directory, basename(action.name));
  if (action.kind === "write") return writeDocument({ bytes: action.bytes, losses: [] }, path).paths;
  if (writeDurableSymlink({ path, target: action.target }) === "made") return [path];
  // On a system without symbolic links, a file holds the target's name instead.
  return writeDocument({ bytes: new TextEncoder().encode(`${action.target}\n`), losses: [] }, path).paths;
}

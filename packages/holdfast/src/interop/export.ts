/** Exports checkpoints and whole runs as documents of other tools, and reads the published JSON Schemas. */
import { readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { InputsPlane } from "@holdfast/core/checkpoint";
import type { RunSummary } from "@holdfast/core/run";
import { allCheckpoints } from "@holdfast/core/store";
import { exportAtif } from "@holdfast/formats/atif";
import { type Encoded, type ExternalCheckpoint, type Loss } from "@holdfast/formats/format";
import type { ExportName } from "@holdfast/formats/format-names";
import { FORMATS } from "@holdfast/formats/registry";
import { HoldfastError } from "@holdfast/platform/error";
import { layoutIn } from "@holdfast/workflows/built-in";
import { writeDocument } from "@holdfast/workflows/layout-files";
import { uniqueLosses } from "@holdfast/workflows/mirror";
import type { WriteResult } from "@holdfast/workflows/plugin";

/**
 * Writes to a file, or into a directory under the name that the format defines, with index and `latest` if the format
 * has them.
 */
export async function writeExport(params: {
  readonly to: ExportName;
  readonly external: readonly ExternalCheckpoint[];
  readonly encoded: readonly Encoded[];
  /** Absolute path. */
  readonly output: string;
  /** The user wrote the path with a trailing slash. */
  readonly directory: boolean;
}): Promise<WriteResult> {
  const { to, encoded, output } = params;
  const [only] = encoded;
  const directory = params.directory || encoded.length > 1 || isExistingDirectory(output);
  const losses = uniqueLosses(encoded.flatMap((one) => one.losses));
  const layout = directory ? await layoutIn(to)?.load() : undefined;
  if (layout?.exportTo !== undefined) {
    const written = layout.exportTo(output, params);
    return { ...written, losses: uniqueLosses([...losses, ...written.losses]) };
  }
  if (!directory && only !== undefined) return { ...writeDocument(only, output), losses };
  const names = distinctNames(encoded.map(({ path }) => basename(path)));
  const paths = encoded.flatMap((one, at) => writeDocument(one, join(output, names[at] ?? "")).paths);
  return { paths, removed: [], losses };
}

/** Some formats give two checkpoints the same name. Files of one export must not overwrite each other. */
function distinctNames(names: readonly string[]): readonly string[] {
  const seen = new Map<string, number>();
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : name.replace(/^([^.]*)/, `$1-${count}`);
  });
}

/** A format that can hold several checkpoints in one document gets one document. */
export function joinDocuments(to: ExportName, encoded: readonly Encoded[]): readonly Encoded[] {
  const format = FORMATS.find(({ name }) => name === to);
  return encoded.length < 2 || format?.join === undefined ? encoded : [format.join(encoded)];
}

export function isExistingDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Exports a whole run as an ATIF trajectory: its journal, and its agents' transcripts as far as they are stored. */
export async function exportTranscript(adapters: CoreAdapters, run: RunSummary): Promise<Encoded> {
  const { store } = adapters;
  const entries = await Array.fromAsync(store.readJournal({ run: run.id }));
  const logs = [];
  const cut: string[] = [];
  for (const log of await adapters.logs.list(run.id)) {
    const { stageAttempt, step, bytes } = log;
    const { lines, next } = await adapters.logs.read(log, 0);
    logs.push({ stageAttempt, step, lines });
    if (next < bytes) cut.push(`${stageAttempt}-${step}`);
  }
  const newest = (await store.latest(run.id))?.planes;
  const given = await firstInputs(adapters, run.id);
  const { agent, model } = newest?.config ?? { agent: null, model: null };
  const inputs = given?.inputs ?? null;
  const conductor = { version: ownVersion(), agent, model };
  const encoded = exportAtif({ run, entries, logs, inputs, conductor });
  return { ...encoded, losses: [...encoded.losses, ...lossesOf({ given, newest: newest?.inputs ?? null, cut })] };
}

/**
 * The inputs of the oldest checkpoint that has the work: a run may determine its work in the first stage, and users
 * edit issues later.
 */
async function firstInputs(
  adapters: CoreAdapters,
  run: string,
): Promise<{ readonly sequence: number; readonly inputs: InputsPlane } | null> {
  for (const { sequence, quarantined } of (await Array.fromAsync(allCheckpoints(adapters.store, run))).toReversed()) {
    if (quarantined) continue;
    const { inputs } = (await adapters.store.getCheckpoint({ run, sequence })).planes;
    if (inputs.issue !== null || inputs.task !== null) return { sequence, inputs };
  }
  return null;
}

function lossesOf(params: {
  readonly given: { readonly sequence: number; readonly inputs: InputsPlane } | null;
  readonly newest: InputsPlane | null;
  readonly cut: readonly string[];
}): readonly Loss[] {
  const { given, newest, cut } = params;
  const losses: Loss[] = cut.map((log) => ({ path: `logs.${log}`, why: "Its last line is incomplete" }));
  const [first, last] = [given?.inputs.issue ?? null, newest?.issue ?? null];
  if (first !== null && last !== null && `${first.title}\n${first.body}` !== `${last.title}\n${last.body}`)
    losses.push({ path: "inputs.issue", why: "The issue was edited during the run; this is its first text" });
  return losses;
}

/** What has a JSON Schema, published with the package. */
const FILES = {
  config: "schemas/config.schema.json",
  "loop-json": "schemas/loop-checkpoint.schema.json",
  "loop-registry": "schemas/loop-registry.schema.json",
  "loop-state": "schemas/loop-state.schema.json",
  "reflection-memory": "schemas/reflection-memory.schema.json",
  atif: "schemas/atif-1.7.schema.json",
} as const;

export function schemaText(name: keyof typeof FILES): string {
  return readPackageFile(FILES[name]);
}

/**
 * Reads a file of the installed package. The package root is above this file; how far depends on whether this is the
 * library, the bundle or the source.
 */
/** The version of this package. */
export function ownVersion(): string {
  const { version } = JSON.parse(readPackageFile("package.json")) as { readonly version?: unknown };
  return String(version);
}

function readPackageFile(path: string): string {
  for (let directory = import.meta.dirname; ; directory = dirname(directory)) {
    try {
      return readFileSync(join(directory, path), "utf8");
    } catch (cause) {
      if (dirname(directory) !== directory) continue;
      throw new HoldfastError({
        code: "IO_FAILED",
        message: `${path} is not in this installation`,
        hint: "Install the package again.",
        cause,
      });
    }
  }
}

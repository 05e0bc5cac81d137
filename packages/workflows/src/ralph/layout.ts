// Writes the `.aiwg` layout of loops: checkpoint files, state, reflection memory and the registry, derived from the
// store.

import { basename, dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { CheckpointSummary, Trigger } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { type RunSummary, isEnded } from "@holdfast/core/run";
import { type RunWithStatus, readStatuses } from "@holdfast/core/run-statuses";
import { type RunStatus, statusWord } from "@holdfast/core/status";
import { type Store, allCheckpoints, newestUsable } from "@holdfast/core/store";
import { decompress } from "@holdfast/formats/compression";
import { type Encoded, toExternalCheckpoint } from "@holdfast/formats/format";
import {
  type CheckpointPathParams,
  checkpointDirectory,
  checkpointPath,
  encodeTrigger,
  parseLoopPath,
  secondaryPath,
} from "@holdfast/formats/loop-document";
import { loopJson } from "@holdfast/formats/loop-json";
import { writeJson } from "@holdfast/formats/strict-json";
import { HoldfastError } from "@holdfast/platform/error";
import { LayoutFiles, preserveExisting } from "../layout-files.ts";
import { WRITTEN_BY, describeLoopCheckpoint, endedIteration, filedIteration, readLoopRun } from "./loop-checkpoint.ts";
import {
  type ActiveLoop,
  type LoopStatus,
  type LoopStatusDetail,
  REGISTRY_PATH,
  equalExceptHeartbeat,
  reflectionDocument,
  registryDocument,
  stateDocument,
  statePath,
} from "./loop-documents.ts";
import type { LayoutLocation } from "../plugin.ts";

interface LayoutReport {
  /** Paths below the root in the order of writing; empty if every file was up to date. */
  readonly written: readonly string[];
  readonly removed: readonly string[];
}

const NOTHING: LayoutReport = { written: [], removed: [] };
/**
 * Other processes may write the same layout at the same time. A writer that finds that the run has advanced writes
 * again, up to this many times.
 */
const MAX_ROUNDS = 5;

/**
 * Brings the `.aiwg` files of one run up to date with its checkpoints. The run never depends on them. All content
 * derives from the store, so a killed writer catches up, and two writers at once write the same bytes.
 */
export class LoopLayout {
  readonly #place: LayoutLocation;
  readonly #run: string;
  readonly #files: LayoutFiles;
  /** Files that were written or found correct, so that only changed ones are encoded again. */
  readonly #known = new Map<string, { readonly of: string; readonly identity: string | null }>();

  constructor(params: LayoutLocation & { readonly run: string }) {
    this.#place = params;
    this.#run = params.run;
    this.#files = new LayoutFiles(params.root);
  }

  async catchUp(): Promise<LayoutReport> {
    let report = NOTHING;
    let run = await this.#place.adapters.store.getRun(this.#run);
    for (let round = 0; round < MAX_ROUNDS && run !== undefined; round += 1) {
      const done = await this.#once(run);
      report = { written: [...report.written, ...done.written], removed: [...report.removed, ...done.removed] };
      const now = await this.#place.adapters.store.getRun(this.#run);
      if (now?.latest?.sequence === run.latest?.sequence && now?.state.kind === run.state.kind) break;
      run = now;
    }
    return report;
  }

  /**
   * Writes the loop's state without its checkpoint files: fast, for a query. Checks the status again after the write,
   * so that a loop that another process resumes meanwhile is not left as crashed.
   */
  async restate(): Promise<void> {
    const { store } = this.#place.adapters;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const run = await store.getRun(this.#run);
      const loop = run === undefined ? null : await readActiveLoop(this.#place, run);
      if (loop === null || loop.live.loopId === null) return;
      const { loopId } = loop.live;
      this.#open(loopId, checkpointDirectory(loopId).replace(/\/$/, ""));
      const checkpoints = await Array.fromAsync(allCheckpoints(store, this.#run));
      const there = layoutFiles(loop, checkpoints, await readDroppedNote(store, this.#run)).filter(
        ({ path }) => this.#files.identity(path) !== null,
      );
      if (this.#describe(loop, loopId, there, checkpoints).length === 0) break;
    }
    await writeRegistry(this.#place, this.#files);
  }

  /**
   * Removes the run's files. Checkpoints of another tool stay in the loop's directory, and with them the documents that
   * describe the loop.
   */
  async remove(run: RunSummary): Promise<void> {
    const loop = await readActiveLoop(this.#place, run);
    if (loop === null) return;
    const { loopId } = loop.live;
    const directory = checkpointDirectory(loopId).replace(/\/$/, "");
    const home = dirname(directory);
    const present = this.#files.list(directory);
    if (this.#files.isOwn(directory)) {
      const own = this.#surplus({ run, loop, directory, present, files: [] });
      this.#files.remove(directory, own);
      if (loopId !== null && own.length === present.length && this.#isDescribed(run, loopId)) {
        this.#files.remove(home, ["state.json", "reflection-memory.json", ".gitignore"]);
        this.#files.removeEmpty([directory, home]);
      }
    }
    if (this.#files.readJson(REGISTRY_PATH) !== null) await writeRegistry(this.#place, this.#files);
  }

  /** Whether no other run or tool wrote the loop's state. */
  #isDescribed(run: RunSummary, loopId: string): boolean {
    const state = this.#files.readJson(statePath(loopId));
    const mark = state?.["holdfast"];
    if (this.#files.identity(statePath(loopId)) === null) return true;
    return isJsonObject(mark) && mark["store"] === this.#place.adapters.store.id && mark["run"] === run.id;
  }

  async #once(run: RunSummary): Promise<LayoutReport> {
    const { store } = this.#place.adapters;
    const loop = await readActiveLoop(this.#place, run);
    if (loop === null) return NOTHING;
    const { live } = loop;
    const directory = checkpointDirectory(live.loopId).replace(/\/$/, "");
    this.#open(live.loopId, directory);
    // The directory is listed before the store is read. Every file found then belongs to a checkpoint that the store
    // already has, so a new file is never treated as surplus.
    const present = this.#files.list(directory);
    const checkpoints = await Array.fromAsync(allCheckpoints(store, run.id));
    const dropped = await readDroppedNote(store, run.id);
    const files = layoutFiles(loop, checkpoints, dropped);
    const surplus = this.#surplus({ run, loop, directory, present, files });
    const newest = checkpoints.find(({ quarantined }) => !quarantined);
    const ended = newest === undefined ? 0 : endedIteration(newest);
    const [left, old] = [surplus.filter((name) => isLeft(directory, name, ended)), surplus];
    const failures: unknown[] = [];
    const written: string[] = [];
    const put = async (file: LoopFile<CheckpointSummary>): Promise<void> => {
      try {
        if (await this.#put(run, loop, file)) written.push(file.path);
      } catch (error) {
        failures.push(error);
      }
    };
    const [beside, holders] = [files.filter((file) => isBeside(file)), files.filter((file) => !isBeside(file))];
    for (const file of beside) await put(file);
    // These checkpoints now have secondary files. Until their iteration files are removed, they look as if their
    // iterations had not been undone.
    this.#files.remove(directory, left);
    for (const file of holders) await put(file);
    this.#files.remove(directory, old);
    if (live.loopId !== null) written.push(...this.#describe(loop, live.loopId, files, checkpoints));
    if (live.loopId !== null && (await writeRegistry(this.#place, this.#files))) written.push(REGISTRY_PATH);
    const [failure] = failures;
    if (failure !== undefined) throw failure;
    return { written, removed: old.map((name) => `${directory}/${name}`) };
  }

  #open(loopId: string | null, directory: string): void {
    const files = this.#files;
    if (loopId === null) {
      files.open(directory, { own: 0 });
      files.hideNew(directory);
      return;
    }
    files.open(".aiwg/ralph", { own: 0 });
    files.hideNew(".aiwg/ralph");
    const home = dirname(directory);
    files.open(home, { own: 1 });
    if (files.read(".aiwg/ralph/.gitignore") === null) files.hideNew(home);
    files.open(directory, { own: 2 });
  }

  /**
   * Returns false if the file was already correct. If the store cannot read the checkpoint, the existing file remains.
   */
  async #put(run: RunSummary, loop: ActiveLoop, file: LoopFile<CheckpointSummary>): Promise<boolean> {
    const { path, checkpoint: summary } = file;
    const of = JSON.stringify([summary.digest, summary.sequence, summary.tags]);
    const known = this.#known.get(path);
    const identity = this.#files.identity(path);
    if (known !== undefined && known.of === of && known.identity === identity && identity !== null) return false;
    const encoded = await this.#encode(run, loop, summary);
    // A file of another tool or another run may be its only copy.
    const mark = encoded === null || identity === null ? "damaged" : this.#markOf(path);
    if (encoded !== null && mark !== "damaged" && !this.#isMarked(run, mark))
      preserveExisting({ to: "loop-json", root: this.#files.root, path: join(this.#files.root, path), encoded });
    const written = encoded !== null && this.#files.write(path, gzipSync(encoded.bytes));
    this.#known.set(path, { of, identity: this.#files.identity(path) });
    return written;
  }

  async #encode(run: RunSummary, loop: ActiveLoop, summary: CheckpointSummary): Promise<Encoded | null> {
    try {
      const checkpoint = await this.#place.adapters.store.getCheckpoint(summary);
      const live = readLoopRun(run, checkpoint.planes, loop.live);
      if (live === null) return null;
      const { external } = toExternalCheckpoint(run, checkpoint, "loop-json");
      const { maxAge: retentionDays } = this.#place.settings;
      const store = this.#place.adapters.store.id;
      return loopJson.encode(describeLoopCheckpoint({ external, live, summary, store, retentionDays }));
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "STORE_CORRUPT") return null;
      throw error;
    }
  }

  /** Names of Holdfast's files in the directory that no checkpoint needs any more. */
  #surplus(params: {
    readonly run: RunSummary;
    readonly loop: ActiveLoop;
    readonly directory: string;
    readonly present: readonly string[];
    readonly files: readonly LoopFile<CheckpointSummary>[];
  }): readonly string[] {
    const { directory } = params;
    const wanted = new Set(params.files.map(({ path }) => basename(path)));
    return params.present.filter((name) => {
      const place = parseLoopPath(`${directory}/${name}`);
      return !wanted.has(name) && place !== null && this.#isOurs(params, `${directory}/${name}`);
    });
  }

  #isOurs({ run, loop }: { readonly run: RunSummary; readonly loop: ActiveLoop }, path: string): boolean {
    const place = parseLoopPath(path);
    const mark = this.#markOf(path);
    if (mark !== "damaged") return this.#isMarked(run, mark);
    // A loop that Holdfast began has its directory to itself, and a run has its own id.
    const { loopId, workflowId } = loop.live;
    const ownIds = loopId === null ? workflowId === run.id : loop.live.state.loopId === loopId;
    return ownIds && (place?.kind === "multi_loop" || place?.workflowId === workflowId);
  }

  #isMarked(run: RunSummary, mark: string | null): boolean {
    return mark?.startsWith(`${this.#place.adapters.store.id}/${run.id}@`) === true;
  }

  #markOf(path: string): string | "damaged" | null {
    const bytes = this.#files.read(path);
    const content = bytes === null ? null : decompress(bytes, 64 * 1024 * 1024);
    if (content?.kind !== "read") return "damaged";
    const document = parsed(content.bytes);
    if (document === null) return "damaged";
    const metadata = document["metadata"];
    const mark = isJsonObject(metadata) ? metadata[WRITTEN_BY] : undefined;
    return typeof mark === "string" ? mark : null;
  }

  #describe(
    loop: ActiveLoop,
    loopId: string,
    files: readonly LoopFile<CheckpointSummary>[],
    checkpoints: readonly CheckpointSummary[],
  ): readonly string[] {
    // The checkpoints come newest first; reversed, the newest of an iteration wins.
    const takenAt = new Map(checkpoints.toReversed().map((one) => [filedIteration(one), one.createdAt]));
    const newest = files.toSorted((a, b) => b.checkpoint.sequence - a.checkpoint.sequence)[0];
    const memory = reflectionDocument(loop.live, takenAt, loop.newest.createdAt);
    const memoryPath = `.aiwg/ralph/loops/${loopId}/reflection-memory.json`;
    const state = stateDocument(loop, { lastCheckpoint: newest?.path ?? null, takenAt });
    return [
      ...(memory !== null && this.#files.write(memoryPath, writeJson(memory)) ? [memoryPath] : []),
      ...(this.#files.write(statePath(loopId), writeJson(state)) ? [statePath(loopId)] : []),
    ];
  }
}

/**
 * All layout files of a run except those that the cleanup dropped. A checkpoint that was tagged since then has a file
 * again. Imported checkpoints remain where they were imported from.
 */
export function layoutFiles(
  { live }: Pick<ActiveLoop, "live">,
  checkpoints: readonly CheckpointSummary[],
  dropped: ReadonlySet<number>,
): readonly LoopFile<CheckpointSummary>[] {
  const { loopId, workflowId } = live;
  const own = checkpoints.filter(({ trigger }) => trigger !== "import");
  return planLoopFiles({ loopId, workflowId, checkpoints: own }).filter(
    ({ checkpoint }) => checkpoint.tags.length > 0 || !dropped.has(checkpoint.sequence),
  );
}

function isBeside({ path }: LoopFile<CheckpointSummary>): boolean {
  return !basename(path).startsWith("iteration-");
}

/** Whether the file belongs to an iteration that a restore has undone. */
function isLeft(directory: string, name: string, ended: number): boolean {
  const place = parseLoopPath(`${directory}/${name}`);
  return place?.kind === "multi_loop" && name.startsWith("iteration-") && place.iteration > ended;
}

function parsed(bytes: Uint8Array): JsonObject | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    // JSON.parse returns JSON, so the cast is safe.
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}

/**
 * Writes the registry of loops from the store. Several runs may write it at once; each writer checks again after its
 * write, so that the last one leaves it correct. With `pulse` it also writes if only heartbeats changed.
 */
export async function writeRegistry(
  place: LayoutLocation,
  files: LayoutFiles,
  { pulse }: { readonly pulse: boolean } = { pulse: false },
): Promise<boolean> {
  let written = false;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const loops = await listActiveLoops(place);
    const before = files.readJson(REGISTRY_PATH);
    const document = registryDocument({ before, loops, store: place.adapters.store.id, limit: place.limit });
    const same = equalExceptHeartbeat(document, before);
    if (same && (written || !pulse)) return written;
    written = files.write(REGISTRY_PATH, writeJson(document)) || written;
  }
  return written;
}

/** All loops that have not ended and have their files here, oldest first. */
export async function listActiveLoops(place: LayoutLocation): Promise<readonly ActiveLoop[]> {
  const { adapters } = place;
  const stood = await readLoopStatuses(place, async () => {
    const runs = await adapters.store.listRuns({ workflow: "ralph" });
    return runs.filter(({ state }) => !isEnded(state));
  });
  const loops: ActiveLoop[] = [];
  for (const one of stood.toReversed()) {
    if (!(await place.holds(one.run.id))) continue;
    const loop = await loopOf(adapters, one);
    if (loop !== null && ACTIVE.has(loop.published.status)) loops.push(loop);
  }
  return loops;
}

/** Returns null if the run is not a loop or has not begun. */
export async function readActiveLoop(place: LayoutLocation, run: RunSummary): Promise<ActiveLoop | null> {
  const [stood] = await readLoopStatuses(place, async () => [run]);
  return stood === undefined ? null : await loopOf(place.adapters, stood);
}

export async function readLoopStatuses(
  { adapters, completing }: LayoutLocation,
  read: () => Promise<readonly RunSummary[]>,
): Promise<readonly RunWithStatus[]> {
  return await readStatuses(adapters, read, ({ latest }) => latest !== null && completing.includes(latest.stage));
}

async function loopOf(adapters: CoreAdapters, stood: RunWithStatus): Promise<ActiveLoop | null> {
  const { run } = stood;
  const { checkpoint: newest } = await newestUsable(adapters.store, run.id);
  const live = newest === undefined ? null : readLoopRun(run, newest.planes);
  // Until it is adopted, an imported loop belongs to the tool that wrote it.
  if (newest === undefined || live === null || newest.trigger === "import") return null;
  return {
    run,
    live,
    newest,
    store: adapters.store.id,
    priority: stood.priority,
    published: publishedStatus(stood.status),
  };
}

const ACTIVE: ReadonlySet<LoopStatus> = new Set(["running", "paused", "completing", "crashed"]);

/** The status in the words of the published schema. `detail` has Holdfast's own words. */
function publishedStatus(status: RunStatus): LoopStatusDetail {
  const unowned = {
    detail: statusWord(status),
    reason: null,
    endedAt: null,
    pid: null,
    owner: null,
    heartbeatAt: null,
  };
  switch (status.kind) {
    case "running":
    case "queued": {
      if (status.holder === null) return { ...unowned, status: "paused" };
      const { host, label, pid, heartbeatAt } = status.holder;
      const held = { ...unowned, owner: `${host}: ${label}`, heartbeatAt };
      if (status.kind === "queued") return { ...held, pid, status: "paused" };
      const word = status.finishing && status.stopping === null ? "completing" : "running";
      return { ...held, pid: status.hostKnown ? pid : null, status: word };
    }
    case "waiting":
    case "paused":
    case "saved":
      return { ...unowned, status: "paused" };
    case "crashed":
      return { ...unowned, status: "crashed", reason: "Its process is gone" };
    case "done":
      return { ...unowned, status: "completed", endedAt: status.at };
    case "failed":
      return { ...unowned, status: "failed", reason: status.reason, endedAt: status.limit ? null : status.at };
    case "aborted":
      return { ...unowned, status: "aborted", reason: status.reason };
  }
}

/**
 * Sequences whose files the cleanup removed, kept in the store; otherwise the next update would write them again.
 * Recorded before the files are removed, so that after a crash the next update removes them.
 */
export async function readDroppedNote(store: Store, run: string): Promise<ReadonlySet<number>> {
  const text = await store.getMeta(keyOf(run));
  if (text === undefined) return new Set();
  const note: Json = JSON.parse(text);
  const dropped = isJsonObject(note) ? note["dropped"] : undefined;
  return new Set((isJsonArray(dropped) ? dropped : []).filter((one) => typeof one === "number"));
}

export async function writeDroppedNote(store: Store, run: string, dropped: readonly number[]): Promise<void> {
  await store.setMeta(keyOf(run), JSON.stringify({ dropped }));
}

function keyOf(run: string): string {
  return `aiwg.dropped.${run}`;
}

export type FiledCheckpoint = Pick<
  CheckpointSummary,
  "sequence" | "iteration" | "stage" | "createdAt" | "trigger" | "tags" | "quarantined"
>;

interface LoopFile<T> {
  readonly checkpoint: T;
  /** Path below the root: `.aiwg/ralph/loops/…` or `.aiwg/checkpoints/…`. */
  readonly path: string;
}

/**
 * Plans which checkpoints of a run become files, their names, and the order of writing.
 *
 * In a loop's directory `iteration-NNN` is the checkpoint at the end of that iteration. The run's newest checkpoint, if
 * it is none of them, gets a secondary file `checkpoint-N-TIME`. So does every checkpoint that was manual, was taken
 * before a risk or for a recovery, or has a tag. The ends of iterations that a restore has undone get secondary files
 * too, so that the highest `iteration-NNN` is the last iteration that counts. Without a loop id every checkpoint has its
 * own file.
 *
 * Secondary files come first: after an interruption a checkpoint may exist twice, but it is never missing.
 */
export function planLoopFiles<T extends FiledCheckpoint>(params: {
  readonly loopId: string | null;
  readonly workflowId: string;
  readonly checkpoints: readonly T[];
}): readonly LoopFile<T>[] {
  const { loopId, workflowId } = params;
  const whole = params.checkpoints
    .filter(({ quarantined }) => !quarantined)
    .toSorted((a, b) => a.sequence - b.sequence);
  const placed = (checkpoint: T): CheckpointPathParams => ({
    loopId,
    workflowId,
    iteration: filedIteration(checkpoint),
    createdAt: checkpoint.createdAt,
    trigger: encodeTrigger(checkpoint.trigger),
    compression: "gzip",
  });
  if (loopId === null) return named(whole, placed, checkpointPath);
  const { holders, beside } = sortOut(whole);
  return [
    ...named(beside, placed, (one) => secondaryPath(one) ?? checkpointPath(one)),
    ...holders.map((checkpoint) => ({ checkpoint, path: checkpointPath(placed(checkpoint)) })),
  ];
}

/** Both lists are in the order of sequences; for the holders that is also the order of iterations. */
function sortOut<T extends FiledCheckpoint>(
  ordered: readonly T[],
): { readonly holders: readonly T[]; readonly beside: readonly T[] } {
  let holders: readonly T[] = [];
  const beside: T[] = [];
  for (const checkpoint of ordered) {
    const isEnd = checkpoint.trigger === "iteration";
    const last = endedIteration(checkpoint) - (isEnd ? 1 : 0);
    beside.push(...holders.filter((one) => endedIteration(one) > last));
    holders = [...holders.filter((one) => endedIteration(one) <= last), ...(isEnd ? [checkpoint] : [])];
    if (!isEnd && (isKept(checkpoint) || checkpoint === ordered.at(-1))) beside.push(checkpoint);
  }
  return { holders, beside: beside.toSorted((a, b) => a.sequence - b.sequence) };
}

const STAYING: ReadonlySet<Trigger> = new Set([
  "manual",
  "before_risky",
  "before_external",
  "error_recovery",
  "before_restore",
]);

function isKept({ trigger, tags }: FiledCheckpoint): boolean {
  return tags.length > 0 || STAYING.has(trigger);
}

/** Two checkpoints of the same millisecond would share a name, so the later one gets the next free millisecond. */
function named<T extends FiledCheckpoint>(
  checkpoints: readonly T[],
  placedOf: (checkpoint: T) => CheckpointPathParams,
  nameOf: (placed: CheckpointPathParams) => string,
): readonly LoopFile<T>[] {
  const taken = new Set<string>();
  return checkpoints.map((checkpoint) => {
    const placed = placedOf(checkpoint);
    const time = Date.parse(placed.createdAt);
    const at = Number.isNaN(time) ? 0 : time;
    for (let later = 0; ; later += 1) {
      const path = nameOf({ ...placed, createdAt: new Date(at + later).toISOString() });
      if (taken.has(path)) continue;
      taken.add(path);
      return { checkpoint, path };
    }
  });
}

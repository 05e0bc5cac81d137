import { basename, dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { CheckpointSummary, Trigger } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { RunSummary } from "@holdfast/core/run";
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
import { writeJson } from "@holdfast/formats/strict-json";
import { HoldfastError } from "@holdfast/platform/error";
import { type RunWithStatus, readStatuses } from "../../../holdfast/src/run-status.ts";
import { LayoutFiles, preserveExisting } from "../layout-files.ts";
import { WRITTEN_BY, encodeLoopCheckpoint, readLoopRun } from "./loop-checkpoint.ts";
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
import type { LoopLayoutSettings } from "./options.ts";

export interface LayoutLocation {
  readonly parts: CoreAdapters;
  /** Where `.aiwg` is. */
  readonly root: string;
  readonly settings: LoopLayoutSettings;
  /** How many loops may be at work at once; null: as many as want to. */
  readonly limit: number | null;
}

interface LayoutReport {
  /** Below the root, in the order of writing; empty: everything was there already. */
  readonly written: readonly string[];
  readonly removed: readonly string[];
}

const NOTHING: LayoutReport = { written: [], removed: [] };
/** Somebody else may write the same layout at the same time; whoever finds that the run went on meanwhile does it again. */
const MAX_ROUNDS = 5;

/**
 * Brings the files of one run below `.aiwg` up to date with its checkpoints. The run never depends on them. What has to be there is told
 * from the store alone, so one that was killed catches up, and two at once write the same bytes.
 */
export class LoopLayout {
  readonly #parts: CoreAdapters;
  readonly #run: string;
  readonly #files: LayoutFiles;
  readonly #settings: LoopLayoutSettings;
  readonly #limit: number | null;
  /** What was written or found right, so that only what changed is encoded again. */
  readonly #known = new Map<string, { readonly of: string; readonly identity: string | null }>();

  constructor(params: LayoutLocation & { readonly run: string }) {
    this.#parts = params.parts;
    this.#run = params.run;
    this.#files = new LayoutFiles(params.root);
    this.#settings = params.settings;
    this.#limit = params.limit;
  }

  async catchUp(): Promise<LayoutReport> {
    let report = NOTHING;
    let run = await this.#parts.store.getRun(this.#run);
    for (let round = 0; round < MAX_ROUNDS && run !== undefined; round += 1) {
      const done = await this.#once(run);
      report = { written: [...report.written, ...done.written], removed: [...report.removed, ...done.removed] };
      const now = await this.#parts.store.getRun(this.#run);
      if (now?.latest?.sequence === run.latest?.sequence && now?.state.kind === run.state.kind) break;
      run = now;
    }
    return report;
  }

  /**
   * What the layout says of the loop, without its checkpoints: quick, for whoever only looked. What is told is looked at again after it was
   * written, so that a loop which somebody takes up at this moment is not left as one that is gone.
   */
  async restate(): Promise<void> {
    const { store } = this.#parts;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const run = await store.getRun(this.#run);
      const loop = run === undefined ? null : await readActiveLoop(this.#parts, run);
      if (loop === null || loop.live.loopId === null) return;
      const { loopId } = loop.live;
      this.#open(loopId, checkpointDirectory(loopId).replace(/\/$/, ""));
      const checkpoints = await Array.fromAsync(allCheckpoints(store, this.#run));
      const there = layoutFiles(loop, checkpoints, await readDroppedNote(store, this.#run)).filter(
        ({ path }) => this.#files.identity(path) !== null,
      );
      if (this.#describe(loop, loopId, there, checkpoints).length === 0) break;
    }
    await writeRegistry({ parts: this.#parts, limit: this.#limit }, this.#files);
  }

  async #once(run: RunSummary): Promise<LayoutReport> {
    const { store } = this.#parts;
    const loop = await readActiveLoop(this.#parts, run);
    if (loop === null) return NOTHING;
    const { live } = loop;
    const directory = checkpointDirectory(live.loopId).replace(/\/$/, "");
    this.#open(live.loopId, directory);
    // Before the store is read: what is there now is of a checkpoint that the store tells of, and so is no surplus for being new.
    const present = this.#files.list(directory);
    const checkpoints = await Array.fromAsync(allCheckpoints(store, run.id));
    const dropped = await readDroppedNote(store, run.id);
    const files = layoutFiles(loop, checkpoints, dropped);
    const surplus = this.#surplus({ run, loop, directory, present, files });
    const newest = checkpoints.find(({ quarantined }) => !quarantined)?.iteration ?? 0;
    const [left, old] = [surplus.filter((name) => isLeft(directory, name, newest)), surplus];
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
    // They stand beside by now; as long as they are there too, they look newer than the newest.
    this.#files.remove(directory, left);
    for (const file of holders) await put(file);
    this.#files.remove(directory, old);
    if (live.loopId !== null) written.push(...this.#describe(loop, live.loopId, files, checkpoints));
    if (live.loopId !== null && (await writeRegistry({ parts: this.#parts, limit: this.#limit }, this.#files)))
      written.push(REGISTRY_PATH);
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

  /** false: it was right already. One that the store cannot give back leaves what is there. */
  async #put(run: RunSummary, loop: ActiveLoop, file: LoopFile<CheckpointSummary>): Promise<boolean> {
    const { path, checkpoint: summary } = file;
    const of = JSON.stringify([summary.digest, summary.sequence, summary.tags]);
    const known = this.#known.get(path);
    const identity = this.#files.identity(path);
    if (known !== undefined && known.of === of && known.identity === identity && identity !== null) return false;
    const encoded = await this.#encode(run, loop, summary);
    // What another tool or another run wrote here may be all there is of it.
    const mark = encoded === null || identity === null ? "damaged" : this.#markOf(path);
    if (encoded !== null && mark !== "damaged" && !this.#isMarked(run, mark))
      preserveExisting({ to: "loop-json", root: this.#files.root, path: join(this.#files.root, path), encoded });
    const written = encoded !== null && this.#files.write(path, gzipSync(encoded.bytes));
    this.#known.set(path, { of, identity: this.#files.identity(path) });
    return written;
  }

  async #encode(run: RunSummary, loop: ActiveLoop, summary: CheckpointSummary): Promise<Encoded | null> {
    try {
      const checkpoint = await this.#parts.store.getCheckpoint(summary);
      const live = readLoopRun(run, checkpoint.planes, loop.live);
      if (live === null) return null;
      const { foreign } = toExternalCheckpoint(run, checkpoint, "loop-json");
      const { maxAge: retentionDays } = this.#settings;
      return encodeLoopCheckpoint({ foreign, live, summary, store: this.#parts.store.id, retentionDays });
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "STORE_CORRUPT") return null;
      throw error;
    }
  }

  /** Names in the directory that are ours and that nothing is to have any more. */
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
    // A loop that we began has its directory for itself, and a run its own id.
    const { loopId, workflowId } = loop.live;
    const ownIds = loopId === null ? workflowId === run.id : loop.live.state.loopId === loopId;
    return ownIds && (place?.kind === "multi_loop" || place?.workflowId === workflowId);
  }

  #isMarked(run: RunSummary, mark: string | null): boolean {
    return mark?.startsWith(`${this.#parts.store.id}/${run.id}@`) === true;
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
    // They come newest first; of an iteration the newest counts.
    const takenAt = new Map(checkpoints.toReversed().map(({ iteration, createdAt }) => [iteration, createdAt]));
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
 * All that the layout has of a run, without what the clean-up took out; what has a tag since then is there again. What was imported lies where
 * it was imported from, as it is.
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

/** Of an iteration that the run has gone back from. */
function isLeft(directory: string, name: string, newest: number): boolean {
  const place = parseLoopPath(`${directory}/${name}`);
  return place?.kind === "multi_loop" && name.startsWith("iteration-") && place.iteration > newest;
}

function parsed(bytes: Uint8Array): JsonObject | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    // JSON.parse gives JSON.
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}

/**
 * Writes the registry of loops as the store has them. Several runs write it at once, each the whole truth of its moment: whoever wrote looks
 * again, so the last of them leaves it true. `pulse`: also when there is nothing new but signs of life.
 */
export async function writeRegistry(
  { parts, limit }: { readonly parts: CoreAdapters; readonly limit: number | null },
  files: LayoutFiles,
  { pulse }: { readonly pulse: boolean } = { pulse: false },
): Promise<boolean> {
  let written = false;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const loops = await listActiveLoops(parts);
    const before = files.readJson(REGISTRY_PATH);
    const document = registryDocument({ before, loops, store: parts.store.id, limit });
    const same = equalExceptHeartbeat(document, before);
    if (same && (written || !pulse)) return written;
    written = files.write(REGISTRY_PATH, writeJson(document)) || written;
  }
  return written;
}

/** All loops of the store that have not ended, oldest first. */
export async function listActiveLoops(parts: CoreAdapters): Promise<readonly ActiveLoop[]> {
  const stood = await readStatuses(parts, async () => {
    const runs = await parts.store.listRuns({ workflow: "ralph" });
    return runs.filter(({ state }) => state.kind === "open" || state.kind === "parked");
  });
  const loops: ActiveLoop[] = [];
  for (const one of stood.toReversed()) {
    const loop = await loopOf(parts, one);
    if (loop !== null && ACTIVE.has(loop.standing.status)) loops.push(loop);
  }
  return loops;
}

/** null: it is no loop, or not one yet. */
export async function readActiveLoop(parts: CoreAdapters, run: RunSummary): Promise<ActiveLoop | null> {
  const [stood] = await readStatuses(parts, async () => [run]);
  return stood === undefined ? null : await loopOf(parts, stood);
}

async function loopOf(parts: CoreAdapters, stood: RunWithStatus): Promise<ActiveLoop | null> {
  const { run } = stood;
  const { checkpoint: newest } = await newestUsable(parts.store, run.id);
  const live = newest === undefined ? null : readLoopRun(run, newest.planes);
  if (newest === undefined || live === null) return null;
  return { run, live, newest, store: parts.store.id, priority: stood.priority, standing: standingOf(stood) };
}

const ACTIVE: ReadonlySet<LoopStatus> = new Set(["running", "paused", "completing", "crashed"]);

function standingOf({ standing, holder }: RunWithStatus): LoopStatusDetail {
  const nobody = { reason: null, endedAt: null, pid: null, owner: null, heartbeatAt: null };
  const held =
    holder === null ? nobody : { ...nobody, owner: `${holder.host}: ${holder.label}`, heartbeatAt: holder.heartbeatAt };
  const here = holder === null ? held : { ...held, pid: holder.pid };
  switch (standing.kind) {
    case "running":
      return {
        ...here,
        status: "running",
        detail: standing.ordered === null ? "running" : `running, told to ${standing.ordered}`,
      };
    case "completing":
      return { ...here, status: "completing", detail: "completing" };
    case "stale":
      return {
        ...here,
        status: "running",
        detail: standing.suspended ? "running, suspended" : "running, gives no sign of life",
      };
    case "elsewhere":
      return { ...held, status: "running", detail: `running on ${standing.host}` };
    case "queued":
      return { ...here, status: "paused", detail: "waits for a place among the loops at work" };
    case "waiting":
      return { ...nobody, status: "paused", detail: `waits for ${standing.on}` };
    case "paused":
      return { ...nobody, status: "paused", detail: "paused" };
    case "budget_exhausted":
      return { ...nobody, status: "paused", detail: "budget exhausted" };
    case "stopped":
    case "new":
    case "manual":
      return { ...nobody, status: "paused", detail: "stopped, can be resumed" };
    case "crashed":
      return { ...nobody, status: "crashed", detail: "crashed, can be resumed", reason: "Its process is gone" };
    case "completed":
      return { ...nobody, status: "completed", detail: "completed", endedAt: standing.at };
    case "failed":
      return { ...nobody, status: "failed", detail: "failed", reason: standing.reason, endedAt: standing.at };
    case "limit_reached":
      return { ...nobody, status: "failed", detail: "limit reached", reason: standing.reason };
    case "aborted":
      return { ...nobody, status: "aborted", detail: "aborted", reason: standing.reason };
  }
}

/**
 * What the clean-up has taken out of a loop's directory, kept with the store: without it the next writing would put back what is missing.
 * Written before the files go, so that a kill in between leaves them to the next writing.
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
  "sequence" | "iteration" | "createdAt" | "trigger" | "tags" | "quarantined"
>;

interface LoopFile<T> {
  readonly checkpoint: T;
  /** Below the root: `.aiwg/ralph/loops/…` or `.aiwg/checkpoints/…`. */
  readonly path: string;
}

/**
 * Which checkpoints of a run are files of the layout, and under which names, in the order in which to write them.
 *
 * In a loop's directory `iteration-NNN` is the newest checkpoint of that iteration. An earlier one that a person asked for, that was
 * taken before a risk or for a recovery, or that has a tag, stands beside it as `checkpoint-N-TIME`; of the others the newer one says all.
 * A run that went back to an earlier iteration has left those after it: they stand beside too, so that the highest `iteration-NNN` is always
 * the run's newest checkpoint. Without a loop id every checkpoint is a file of its own.
 *
 * What stands beside comes first: whoever is stopped in between has a checkpoint twice, and never not at all.
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
    iteration: checkpoint.iteration,
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

/** Both in the order of sequences; of the holders that is the order of iterations, too. */
function sortOut<T extends FiledCheckpoint>(
  ordered: readonly T[],
): { readonly holders: readonly T[]; readonly beside: readonly T[] } {
  let holders: readonly T[] = [];
  const beside: T[] = [];
  for (const checkpoint of ordered) {
    const { iteration } = checkpoint;
    beside.push(...holders.filter((one) => one.iteration > iteration || (one.iteration === iteration && stays(one))));
    holders = [...holders.filter((one) => one.iteration < iteration), checkpoint];
  }
  return { holders, beside: beside.toSorted((a, b) => a.sequence - b.sequence) };
}

const STAYING: ReadonlySet<Trigger> = new Set(["manual", "before_risky", "error_recovery", "before_restore"]);

function stays({ trigger, tags }: FiledCheckpoint): boolean {
  return tags.length > 0 || STAYING.has(trigger);
}

/** Two of one millisecond would have one name: the later is named as if it were a millisecond younger, and so on. */
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

import { gzipSync } from "node:zlib";
import { basename, dirname, join } from "node:path";
import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { LoopLayoutSettings } from "../../core/lease/loop-layout.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { allCheckpoints } from "../../engine/upkeep/all-checkpoints.ts";
import type { Parts } from "../../engine/parts.ts";
import type { Encoded } from "../../formats/format.ts";
import { encodeLive, WRITTEN_BY } from "../../formats/loop-json/encode-live.ts";
import { liveLoop } from "../../formats/loop-json/live-loop.ts";
import type { StandingLoop } from "../../formats/loop-json/loop-standing.ts";
import { checkpointDirectory, readPlace } from "../../formats/loop-json/places.ts";
import { planLoopFiles } from "../../formats/loop-json/plan-loop-files.ts";
import type { LoopFile } from "../../formats/loop-json/plan-loop-files.ts";
import { reflectionDocument } from "../../formats/loop-json/reflection-document.ts";
import { REGISTRY_PATH, statePath } from "../../formats/loop-json/registry-document.ts";
import { stateDocument } from "../../formats/loop-json/state-document.ts";
import { writeJson } from "../../formats/write-json.ts";
import { decompress } from "../../system/compression.ts";
import { asForeign } from "./as-foreign.ts";
import { LayoutFiles } from "./layout-files.ts";
import { readDropped } from "./loop-note.ts";
import { writeRegistry } from "./loop-registry.ts";
import { standingLoop } from "./loop-standings.ts";
import { setAside } from "./set-aside.ts";

export interface LoopPlace {
  readonly parts: Parts;
  /** Where `.aiwg` is. */
  readonly root: string;
  readonly settings: LoopLayoutSettings;
  /** How many loops may be at work at once; null: as many as want to. */
  readonly limit: number | null;
}

export interface LayoutReport {
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
  readonly #parts: Parts;
  readonly #run: string;
  readonly #files: LayoutFiles;
  readonly #settings: LoopLayoutSettings;
  readonly #limit: number | null;
  /** What was written or found right, so that only what changed is encoded again. */
  readonly #known = new Map<string, { readonly of: string; readonly identity: string | null }>();

  constructor(params: LoopPlace & { readonly run: string }) {
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
      const loop = run === undefined ? null : await standingLoop(this.#parts, run);
      if (loop === null || loop.live.loopId === null) return;
      const { loopId } = loop.live;
      this.#open(loopId, checkpointDirectory(loopId).replace(/\/$/, ""));
      const checkpoints = await Array.fromAsync(allCheckpoints(store, this.#run));
      const there = filesOf(loop, checkpoints, await readDropped(store, this.#run)).filter(
        ({ path }) => this.#files.identity(path) !== null,
      );
      if (this.#describe(loop, loopId, there, checkpoints).length === 0) break;
    }
    await writeRegistry({ parts: this.#parts, limit: this.#limit }, this.#files);
  }

  async #once(run: RunSummary): Promise<LayoutReport> {
    const { store } = this.#parts;
    const loop = await standingLoop(this.#parts, run);
    if (loop === null) return NOTHING;
    const { live } = loop;
    const directory = checkpointDirectory(live.loopId).replace(/\/$/, "");
    this.#open(live.loopId, directory);
    // Before the store is read: what is there now is of a checkpoint that the store tells of, and so is no surplus for being new.
    const present = this.#files.list(directory);
    const checkpoints = await Array.fromAsync(allCheckpoints(store, run.id));
    const dropped = await readDropped(store, run.id);
    const files = filesOf(loop, checkpoints, dropped);
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
  async #put(run: RunSummary, loop: StandingLoop, file: LoopFile<CheckpointSummary>): Promise<boolean> {
    const { path, checkpoint: summary } = file;
    const of = JSON.stringify([summary.digest, summary.sequence, summary.tags]);
    const known = this.#known.get(path);
    const identity = this.#files.identity(path);
    if (known !== undefined && known.of === of && known.identity === identity && identity !== null) return false;
    const encoded = await this.#encode(run, loop, summary);
    // What another tool or another run wrote here may be all there is of it.
    const mark = encoded === null || identity === null ? "damaged" : this.#markOf(path);
    if (encoded !== null && mark !== "damaged" && !this.#isMarked(run, mark))
      setAside({ to: "loop-json", root: this.#files.root, path: join(this.#files.root, path), encoded });
    const written = encoded !== null && this.#files.write(path, gzipSync(encoded.bytes));
    this.#known.set(path, { of, identity: this.#files.identity(path) });
    return written;
  }

  async #encode(run: RunSummary, loop: StandingLoop, summary: CheckpointSummary): Promise<Encoded | null> {
    try {
      const checkpoint = await this.#parts.store.getCheckpoint(summary);
      const live = liveLoop(run, checkpoint.planes, loop.live);
      if (live === null) return null;
      const { foreign } = asForeign(run, checkpoint, "loop-json");
      const { maxAge: retentionDays } = this.#settings;
      return encodeLive({ foreign, live, summary, store: this.#parts.store.id, retentionDays });
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "STORE_CORRUPT") return null;
      throw error;
    }
  }

  /** Names in the directory that are ours and that nothing is to have any more. */
  #surplus(params: {
    readonly run: RunSummary;
    readonly loop: StandingLoop;
    readonly directory: string;
    readonly present: readonly string[];
    readonly files: readonly LoopFile<CheckpointSummary>[];
  }): readonly string[] {
    const { directory } = params;
    const wanted = new Set(params.files.map(({ path }) => basename(path)));
    return params.present.filter((name) => {
      const place = readPlace(`${directory}/${name}`);
      return !wanted.has(name) && place !== null && this.#isOurs(params, `${directory}/${name}`);
    });
  }

  #isOurs({ run, loop }: { readonly run: RunSummary; readonly loop: StandingLoop }, path: string): boolean {
    const place = readPlace(path);
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
    loop: StandingLoop,
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
export function filesOf(
  { live }: Pick<StandingLoop, "live">,
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
  const place = readPlace(`${directory}/${name}`);
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

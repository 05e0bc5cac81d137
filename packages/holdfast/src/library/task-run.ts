import type { Checkpoint as StoredCheckpoint } from "../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import { isJsonObject } from "../core/json.ts";
import type { JsonObject } from "../core/json.ts";
import { makeRunId } from "../core/run/run-id.ts";
import { RUN_ID } from "../core/run/run.ts";
import type { Run } from "../core/run/run.ts";
import { allCheckpoints } from "../engine/upkeep/all-checkpoints.ts";
import type { Parts } from "../engine/parts.ts";
import { RunHandle } from "../engine/run-handle.ts";
import { sha256 } from "../system/hash.ts";
import { Checkpoint } from "./checkpoint.ts";
import type { TokenUsage } from "./checkpoint.ts";
import { foreignRun, inWordsOfTasks, noVersion } from "./refusals.ts";

/** As in runs that come from another tool's documents of this kind: such a run is a task like any other, and can be exported. */
const WORKFLOW = "none";
/** Label of a run whose history began elsewhere: so many versions came before its first checkpoint. */
const BEFORE = "versions_before";

export interface TaskState {
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  readonly metadata: JsonObject;
}

/**
 * One task in a store: a run whose checkpoints hold values, tokens and metadata only, and whose sequences are the versions.
 * The run is made with the first write, so that looking for a task leaves nothing behind.
 */
export class TaskRun {
  readonly taskId: string;
  /** How many checkpoints there were when we last looked; for display only. */
  counted = 0;
  readonly #parts: Parts;
  readonly #id: string;
  #before: number | undefined;
  /** One promise for all writers: what waits on it goes on in the order of the calls. */
  #writing: Promise<RunHandle> | undefined;

  constructor(parts: Parts, taskId: string) {
    this.taskId = taskId;
    this.#parts = parts;
    this.#id = runIdOf(taskId);
  }

  /** Makes the run if it is not there (`after`: so many versions came before), and takes its lease. */
  async hold(after: number): Promise<void> {
    await this.#write(after);
  }

  /** Durable when it resolves. `state` must not change any more. */
  async save(state: TaskState, after: number): Promise<Checkpoint> {
    const run = await this.#write(after);
    const { values, tokenUsage: tokens, metadata } = state;
    const extensions = Object.keys(metadata).length === 0 ? {} : { metadata };
    try {
      const saved = await run.save({ values, tokens, planes: { extensions }, files: false });
      this.counted += 1;
      const version = (this.#before ?? 0) + saved.sequence;
      return new Checkpoint({ taskId: this.taskId, version, ...state, createdAt: saved.createdAt });
    } catch (error) {
      throw inWordsOfTasks(error, this.taskId);
    }
  }

  async get(version: number): Promise<Checkpoint> {
    const before = await this.#find();
    const sequence = Number.isSafeInteger(version) && before !== undefined ? version - before : 0;
    if (sequence < 1) throw await this.#noVersion(version);
    try {
      return this.#checkpointOf(await this.#parts.store.getCheckpoint({ run: this.#id, sequence }));
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "CHECKPOINT_NOT_FOUND") throw await this.#noVersion(version);
      throw inWordsOfTasks(error, this.taskId);
    }
  }

  async latest(): Promise<Checkpoint | undefined> {
    if ((await this.#find()) === undefined) return undefined;
    const found = await this.#parts.store.latest(this.#id);
    return found === undefined ? undefined : this.#checkpointOf(found);
  }

  /** 0 when there is none. */
  async newest(): Promise<number> {
    const before = await this.#find();
    if (before === undefined) return 0;
    const [newest] = await this.#parts.store.listCheckpoints({ run: this.#id, limit: 1 });
    return newest === undefined ? 0 : before + newest.sequence;
  }

  async size(): Promise<number> {
    if ((await this.#find()) === undefined) return 0;
    this.counted = (await this.#parts.store.getRun(this.#id))?.checkpoints ?? 0;
    return this.counted;
  }

  /** Oldest first. */
  async versions(): Promise<readonly number[]> {
    const before = await this.#find();
    if (before === undefined) return [];
    const found = await Array.fromAsync(
      allCheckpoints(this.#parts.store, this.#id),
      ({ sequence }) => before + sequence,
    );
    this.counted = found.length;
    return found.toReversed();
  }

  /** Lets go of the lease; a later write takes it again. */
  async release(): Promise<void> {
    const writing = this.#writing;
    this.#writing = undefined;
    const run = await writing?.catch(() => undefined);
    await run?.close();
  }

  /** Versions before the run's first; undefined while there is no run. */
  async #find(): Promise<number | undefined> {
    if (this.#before === undefined) {
      const run = await this.#parts.store.getRun(this.#id);
      if (run !== undefined) this.#before = this.#check(run);
    }
    return this.#before;
  }

  #write(after: number): Promise<RunHandle> {
    this.#writing ??= this.#openForWriting(after).catch((error: unknown) => {
      this.#writing = undefined;
      throw inWordsOfTasks(error, this.taskId);
    });
    return this.#writing;
  }

  async #openForWriting(after: number): Promise<RunHandle> {
    const { store } = this.#parts;
    const run =
      (await store.getRun(this.#id)) ??
      (await store.createRun({
        id: this.#id,
        workflow: WORKFLOW,
        work: { kind: "task", text: this.taskId },
        ...(after === 0 ? {} : { labels: { [BEFORE]: after } }),
      }));
    this.#before = this.#check(run);
    const handle = new RunHandle(this.#parts, run);
    await handle.hold();
    return handle;
  }

  #check(run: Run): number {
    const { workflow, work, labels } = run;
    if (workflow !== WORKFLOW || work.kind !== "task" || work.text !== this.taskId) {
      throw foreignRun({ taskId: this.taskId, run: run.id });
    }
    const before = labels[BEFORE];
    return typeof before === "number" ? before : 0;
  }

  #checkpointOf(found: StoredCheckpoint): Checkpoint {
    const { context, extensions } = found.planes;
    const { metadata } = extensions;
    return new Checkpoint({
      taskId: this.taskId,
      version: (this.#before ?? 0) + found.sequence,
      values: context.values,
      tokenUsage: context.tokens,
      metadata: isJsonObject(metadata) ? metadata : {},
      createdAt: found.createdAt,
    });
  }

  async #noVersion(version: unknown): Promise<HoldfastError> {
    const [newest, size] = [await this.newest(), await this.size()];
    return noVersion({ taskId: this.taskId, version, first: (this.#before ?? 0) + 1, newest, size });
  }
}

/** The task's own name where it can be a run id; else one made from it, which no other task gets (the run's work tells). */
function runIdOf(taskId: string): string {
  if (RUN_ID.test(taskId)) return taskId;
  return makeRunId({ work: { kind: "task", text: taskId }, random: sha256(taskId).slice(0, 16) });
}

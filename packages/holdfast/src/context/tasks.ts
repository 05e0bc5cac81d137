/** Keeps the tasks of `holdfast/context` in a store: each task is a run, and its versions are checkpoint sequences. */
import { isAbsolute } from "node:path";
import type { CoreAdapters } from "@holdfast/core/adapters";
import { NO_LOGS } from "@holdfast/core/agent-log";
import type { Checkpoint as StoredCheckpoint } from "@holdfast/core/checkpoint";
import { type JsonObject, isJsonObject, isRecord, sha256 } from "@holdfast/core/json";
import { checkArgument, checkOptions } from "@holdfast/core/options";
import { storeRetention } from "@holdfast/core/retention";
import { RUN_ID, type Run, makeRunId } from "@holdfast/core/run";
import { RunHandle } from "@holdfast/core/run-handle";
import { type Store, allCheckpoints } from "@holdfast/core/store";
import { IMPORT_LABEL, VERSIONS_BEFORE, isWhole, sourceDocumentOf } from "@holdfast/formats/format";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import { findStorePlace, openStoreAt } from "../open-store.ts";
import { ownerLiveness } from "@holdfast/core/store-sql/leases";
import { stateDirectory } from "@holdfast/postgres/store-url";
import { Checkpoint, type TokenUsage } from "./checkpoint.ts";

/** Where the checkpoints of a task are stored, and how long a write waits. */
export interface OpenOptions {
  /**
   * A directory for the embedded store, or a store that you opened yourself (and that you close). Default:
   * HOLDFAST_STORE, else the store of the git repository that contains `cwd`.
   */
  readonly store?: string | Store;
  /** Base of relative directories, and where the repository is searched. Default: the current directory. */
  readonly cwd?: string;
  /** How long a write waits for a task that another live process is writing. Default 0: `LEASE_HELD` at once. */
  readonly leaseWaitMs?: number;
}

/**
 * The tasks of one open store. There is one TaskRun per task and store, so that a process never competes with itself
 * for a lease.
 */
export class Tasks {
  readonly #adapters: CoreAdapters;
  readonly #closeStore: () => Promise<void>;
  readonly #runs = new Map<string, TaskRun>();

  constructor(store: Store, params: { readonly leaseWaitMs?: number; readonly closeStore: () => Promise<void> }) {
    this.#adapters = partsOver(store, params.leaseWaitMs ?? 0);
    this.#closeStore = params.closeStore;
  }

  run(taskId: string): TaskRun {
    const known = this.#runs.get(taskId);
    if (known !== undefined) return known;
    if (typeof taskId !== "string" || taskId === "" || !taskId.isWellFormed()) throw badTaskId(taskId);
    const run = new TaskRun(this.#adapters, taskId);
    this.#runs.set(taskId, run);
    return run;
  }

  async close(): Promise<void> {
    try {
      await Promise.all([...this.#runs.values()].map((run) => run.release()));
    } finally {
      await this.#closeStore();
    }
  }
}

export async function openTasks(options: OpenOptions, taskId: string): Promise<Tasks> {
  checkOptions("CheckpointStore.open", options, { store: "any", cwd: "path", leaseWaitMs: "amount" });
  checkStoreArgument(options.store);
  const { store, ...rest } = options;
  if (store !== undefined && typeof store !== "string") {
    return new Tasks(store, { ...rest, closeStore: () => Promise.resolve() });
  }
  try {
    const { cwd } = rest;
    const place = { ...(store === undefined ? {} : { store }), ...(cwd === undefined ? {} : { cwd }) };
    const { store: opened } = await openStoreAt(await findStorePlace(place));
    return new Tasks(opened, { ...rest, closeStore: () => opened.close() });
  } catch (error) {
    throw toTaskError(error, taskId);
  }
}

/** A directory, or an open store. An object that is none would fail at the first save. */
function checkStoreArgument(store: unknown): void {
  if (store === undefined || (isRecord(store) && typeof store["getRun"] === "function")) return;
  checkArgument("CheckpointStore.open", "store", store, "path");
}

/** Saves values only: there is no worktree to capture, so saving a context runs no git command. */
function partsOver(store: Store, leaseWaitMs: number): CoreAdapters {
  return {
    store,
    storeDirectory: null,
    logs: NO_LOGS,
    workspaces: null,
    clock: systemClock,
    random: () => randomId().slice(0, 8),
    retention: storeRetention,
    maxUntrackedBytes: undefined,
    includeIgnored: false,
    ownsRefs: false,
    liveness: (owner) =>
      ownerLiveness(
        owner,
        isAbsolute(store.location)
          ? { directory: store.location, shared: false }
          : { directory: stateDirectory(store.id), shared: true },
      ),
    leaseWaitMs,
    worktreePath: undefined,
  };
}

/**
 * Runs that were imported from another tool's documents of this kind have the same workflow name. Such a run is a task
 * like any other and can be exported.
 */
const WORKFLOW = "none";

interface TaskState {
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  readonly metadata: JsonObject;
}

/**
 * One task in a store: a run whose checkpoints hold only values, tokens and metadata, and whose sequences are the
 * versions. The first write creates the run, so that looking for a task leaves nothing behind.
 */
export class TaskRun {
  readonly taskId: string;
  /** Number of checkpoints at the last read; for display only. */
  counted = 0;
  readonly #adapters: CoreAdapters;
  readonly #id: string;
  #before: number | undefined;
  /** One promise for all writers, so that waiting writes continue in the order of the calls. */
  #writing: Promise<RunHandle> | undefined;

  constructor(adapters: CoreAdapters, taskId: string) {
    this.taskId = taskId;
    this.#adapters = adapters;
    this.#id = runIdOf(taskId);
  }

  /** Creates the run if it does not exist (`after`: number of versions before its first), and acquires its lease. */
  async hold(after: number): Promise<void> {
    await this.#write(after);
  }

  /** Durable when it resolves. The caller must not change `state` afterwards. */
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
      throw toTaskError(error, this.taskId);
    }
  }

  async get(version: number): Promise<Checkpoint> {
    const before = await this.#find();
    const sequence = Number.isSafeInteger(version) && before !== undefined ? version - before : 0;
    if (sequence < 1) throw await this.#noVersion(version);
    try {
      return this.#checkpointOf(await this.#adapters.store.getCheckpoint({ run: this.#id, sequence }));
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "CHECKPOINT_NOT_FOUND") throw await this.#noVersion(version);
      throw toTaskError(error, this.taskId);
    }
  }

  async latest(): Promise<Checkpoint | undefined> {
    if ((await this.#find()) === undefined) return undefined;
    const found = await this.#adapters.store.latest(this.#id);
    return found === undefined ? undefined : this.#checkpointOf(found);
  }

  /** 0 when there is none. */
  async newest(): Promise<number> {
    const before = await this.#find();
    if (before === undefined) return 0;
    const [newest] = await this.#adapters.store.listCheckpoints({ run: this.#id, limit: 1 });
    return newest === undefined ? 0 : before + newest.sequence;
  }

  async size(): Promise<number> {
    if ((await this.#find()) === undefined) return 0;
    this.counted = (await this.#adapters.store.getRun(this.#id))?.checkpoints ?? 0;
    return this.counted;
  }

  /** Oldest first. */
  async versions(): Promise<readonly number[]> {
    const before = await this.#find();
    if (before === undefined) return [];
    const found = await Array.fromAsync(
      allCheckpoints(this.#adapters.store, this.#id),
      ({ sequence }) => before + sequence,
    );
    this.counted = found.length;
    return found.toReversed();
  }

  /** Releases the lease; a later write acquires it again. */
  async release(): Promise<void> {
    const writing = this.#writing;
    this.#writing = undefined;
    const run = await writing?.catch(() => undefined);
    await run?.close();
  }

  /** Number of versions before the run's first; undefined while there is no run. */
  async #find(): Promise<number | undefined> {
    if (this.#before === undefined) {
      const run = await this.#adapters.store.getRun(this.#id);
      if (run !== undefined) this.#before = this.#check(run);
    }
    return this.#before;
  }

  #write(after: number): Promise<RunHandle> {
    this.#writing ??= this.#openForWriting(after).catch((error: unknown) => {
      this.#writing = undefined;
      throw toTaskError(error, this.taskId);
    });
    return this.#writing;
  }

  async #openForWriting(after: number): Promise<RunHandle> {
    const { store } = this.#adapters;
    const run =
      (await store.getRun(this.#id)) ??
      (await store.createRun({
        id: this.#id,
        workflow: WORKFLOW,
        work: { kind: "task", text: this.taskId },
        ...(after === 0 ? {} : { labels: { [VERSIONS_BEFORE]: after } }),
      }));
    this.#before = this.#check(run);
    // A version saved now would take the number of one that the import still has to write.
    if (Object.hasOwn(run.labels, IMPORT_LABEL) && !(await isWhole(this.#adapters, run.id)))
      throw unfinishedImport(this.taskId);
    const handle = new RunHandle(this.#adapters, run);
    await handle.hold();
    return handle;
  }

  #check(run: Run): number {
    const { workflow, work, labels } = run;
    if (workflow !== WORKFLOW || work.kind !== "task" || work.text !== this.taskId) {
      throw foreignRun({ taskId: this.taskId, run: run.id });
    }
    const before = labels[VERSIONS_BEFORE];
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
      createdAt: this.#timeOf(found),
    });
  }

  /** An imported version keeps the time of its document. */
  #timeOf({ trigger, planes, createdAt }: StoredCheckpoint): string {
    return (trigger === "import" ? sourceDocumentOf(planes)?.createdAt : null) ?? createdAt;
  }

  async #noVersion(version: unknown): Promise<HoldfastError> {
    const [newest, size] = [await this.newest(), await this.size()];
    return noVersion({ taskId: this.taskId, version, first: (this.#before ?? 0) + 1, newest, size });
  }
}

/**
 * The task's own name if it is a valid run id. Otherwise an id derived from it that no other task gets; the run's work
 * holds the name.
 */
export function runIdOf(taskId: string): string {
  if (RUN_ID.test(taskId)) return taskId;
  return makeRunId({ work: { kind: "task", text: taskId }, random: sha256(taskId).slice(0, 16) });
}

// Errors of the context library speak of tasks and versions, not of runs and sequences.
function badTaskId(taskId: unknown): HoldfastError {
  const shown = taskId === "" ? "An empty text" : describeValue(taskId);
  return usageError(`${shown} cannot be a task id`, 'Give the task a name of its own, such as "task-1".', { taskId });
}

function foreignRun(params: { readonly taskId: string; readonly run: string }): HoldfastError {
  return new HoldfastError({
    code: "RUN_EXISTS",
    message: `The run ${params.run} of this store does not belong to the task ${JSON.stringify(params.taskId)}`,
    hint: "Choose another task id, or another directory for the store.",
    data: params,
  });
}

function unfinishedImport(taskId: string): HoldfastError {
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The import of task ${JSON.stringify(taskId)} did not finish`,
    hint: "Run the same `holdfast format import` again to complete it.",
    retry: "ask",
    data: { taskId },
  });
}

function noVersion(params: {
  readonly taskId: string;
  readonly version: unknown;
  /** The first version number; 1 unless the history began elsewhere. */
  readonly first: number;
  /** 0 when there is none. */
  readonly newest: number;
  readonly size: number;
}): HoldfastError {
  const { taskId, version, first, newest, size } = params;
  const whole = size === newest - first + 1;
  return new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Task ${JSON.stringify(taskId)} has no version ${describeValue(version)}`,
    hint:
      size === 0
        ? "It has none yet: save one first."
        : `It has ${size} up to version ${newest}${whole && size > 1 ? `, from ${first} on` : ""}; listVersions() names them.`,
    data: { taskId, version, newest, size },
  });
}

export function wrongStore(taskId: string, storeTaskId: string): HoldfastError {
  return usageError(
    `A context of task ${JSON.stringify(taskId)} cannot use the store of task ${JSON.stringify(storeTaskId)}`,
    `Give it the store of its own task: store.task(${JSON.stringify(taskId)}).`,
    { taskId, storeTaskId },
  );
}

export function wrongCheckpoint(taskId: string, contextTaskId: string): HoldfastError {
  return usageError(
    `The checkpoint is of task ${JSON.stringify(taskId)}, the context of ${JSON.stringify(contextTaskId)}`,
    "Create a new context from it: Context.restore(checkpoint).",
    { taskId, contextTaskId },
  );
}

export function notForked(child: unknown, taskId: string): HoldfastError {
  const name = typeof child === "object" && child !== null && "taskId" in child ? JSON.stringify(child.taskId) : "This";
  return usageError(
    `${name} was not forked from the context of task ${JSON.stringify(taskId)}`,
    "Only the context that fork() was called on can merge or discard what it returned.",
    { taskId },
  );
}

export function badTokens(tokens: unknown): HoldfastError {
  return usageError(
    `Tokens are counted by name, not as ${describeValue(tokens)}`,
    "Give names and amounts: addTokens({ input_tokens: 100 }).",
  );
}

export function badConfig(config: unknown): HoldfastError {
  return usageError(
    `A context is configured by an object, not by ${Array.isArray(config) ? "a list" : `a value of type ${typeof config}`}`,
    'Give names and values: new Context(taskId, { config: { mode: "copilot" } }).',
  );
}

export function noStore(taskId: string): HoldfastError {
  return usageError(
    `The context of task ${JSON.stringify(taskId)} has no store to save a snapshot in`,
    "Get it from `await store.context()`, or give the store: `Context.restore(checkpoint, { store })`.",
    { taskId },
  );
}

export function notACheckpoint(value: unknown): HoldfastError {
  return usageError(
    `A context is restored from a Checkpoint, not from ${value === null ? "null" : `a value of type ${typeof value}`}`,
    "Read documents with Checkpoint.fromJSON(…), versions with `await store.get(version)`.",
  );
}

/**
 * Rewords the store's errors about runs and leases for users who opened a task. Every other error is returned
 * unchanged.
 */
function toTaskError(error: unknown, taskId: string): unknown {
  if (!(error instanceof HoldfastError)) return error;
  const known = wordsFor(error, JSON.stringify(taskId));
  if (known === undefined) return error;
  const { code, retry, data } = error;
  return new HoldfastError({ code, retry, ...known, data: { ...data, taskId }, cause: error });
}

function wordsFor(error: HoldfastError, task: string): { readonly message: string; readonly hint: string } | undefined {
  switch (error.code) {
    case "LEASE_HELD":
      return heldWords(error.data["owner"], task);
    case "LEASE_LOST":
      return {
        message: `Another process has acquired task ${task}; nothing was saved`,
        hint: "Close this store, open the task again, and continue from its newest checkpoint.",
      };
    case "CHECKPOINT_DROPPED":
      return {
        message: `A version of task ${task} was dropped on ${String(error.data["droppedAt"])}: ${String(error.data["why"])}`,
        hint: "Call listVersions() for the remaining ones.",
      };
    case "NOT_A_REPOSITORY":
      return {
        message: error.message,
        hint: 'Name a directory: CheckpointStore.open(taskId, { store: "./state" }) or HOLDFAST_STORE; or use CheckpointStore.inMemory(taskId).',
      };
    default:
      return undefined;
  }
}

function heldWords(owner: unknown, task: string): { readonly message: string; readonly hint: string } {
  const { pid, host } = typeof owner === "object" && owner !== null ? (owner as { pid?: unknown; host?: unknown }) : {};
  if (pid === process.pid) {
    return {
      message: `Task ${task} is already being written by another store of this process`,
      hint: "Open a task once and share it: store.task(taskId) gives further tasks of the same store.",
    };
  }
  return {
    message: `Task ${task} is being written by process ${String(pid)} on ${String(host)}`,
    hint: "Wait until it exits, or pass leaseWaitMs to wait here. If it crashes, the task is free at once. Reading needs no wait.",
  };
}

/**
 * The Context and CheckpointStore classes of `holdfast/context`: work with a task's values, and save and restore its
 * checkpoints.
 */
import { type JsonObject, isRecord } from "@holdfast/core/json";
import { checkOptions } from "@holdfast/core/options";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { capture } from "@holdfast/core/values";
import { Checkpoint, type TokenUsage } from "./checkpoint.ts";
import { ContextCursor, ContextState } from "./context-state.ts";
import { type ContextConflict, addTokens, rewindContext, snapshotContext, tokensOf } from "./context-tree.ts";
import {
  type OpenOptions,
  type TaskRun,
  Tasks,
  badConfig,
  badTokens,
  noStore,
  notACheckpoint,
  notForked,
  openTasks,
  wrongCheckpoint,
  wrongStore,
} from "./tasks.ts";

/**
 * Settings that your program keeps with a context. Holdfast copies and freezes them, passes them to forks, and neither
 * reads nor stores them.
 */
export type ContextConfig = JsonObject;

/** Options of a new context. */
export interface ContextOptions {
  /** Where its snapshots are saved. */
  readonly store?: CheckpointStore;
  /** Default: empty. */
  readonly config?: ContextConfig;
}

/**
 * The working state of a task: values, and a count of the tokens used. It can be forked for a part of the work and
 * merged back, saved as a {@link Checkpoint}, and restored to one.
 *
 * @example
 * ```ts
 * await using store = await CheckpointStore.open("task-1");
 * const context = await store.context();
 * context.state.set("progress", "step 1");
 * context.addTokens({ input_tokens: 100 });
 * const checkpoint = await context.snapshot({ metadata: { step: 1 } }); // durable
 * context.state.set("progress", "a wrong turn");
 * context.restore(checkpoint);
 * context.state.get("progress"); // "step 1"
 * ```
 */
export class Context {
  /** The task that this context belongs to. */
  readonly taskId: string;
  /** The store of the snapshots; `null` if there is none, and then `snapshot` throws. */
  readonly store: CheckpointStore | null;
  /** The settings that the context was created with, deeply frozen. A fork has its parent's. They are not saved. */
  readonly config: ContextConfig;
  #cursor: ContextCursor;
  #state: ContextState;
  #parent: Context | null = null;
  readonly #children = new Set<Context>();
  /** The version that it was restored from. A new history continues to count from it. */
  #after = 0;

  /**
   * An empty context. Usually you get a context from {@link CheckpointStore.context}, which continues from the task's
   * newest checkpoint.
   *
   * @throws {HoldfastError} `USAGE` if the task id is empty, the store belongs to another task, or the config is not an
   * object; `NOT_JSON` if the config holds what JSON cannot represent.
   */
  constructor(taskId: string, options: ContextOptions = {}) {
    checkOptions("Context", options, { store: "any", config: "any" });
    const { store = null, config = {} } = options;
    if (store !== null && store.taskId !== taskId) throw wrongStore(taskId, store.taskId);
    if (!isRecord(config)) throw badConfig(config);
    this.taskId = taskId;
    this.store = store;
    // The capture of an object is an object.
    this.config = capture(config) as ContextConfig;
    this.#cursor = ContextCursor.root(taskId, { values: {}, tokens: {} });
    this.#state = new ContextState(this.#cursor);
  }

  /**
   * A new context with the state of the checkpoint, without parent or forks. Its snapshots go to `store`, or to the
   * store that the checkpoint came from; version numbers continue. To reset an existing context, call its own {@link
   * Context.restore}.
   *
   * @throws {HoldfastError} `USAGE` if it is not a checkpoint, or the store belongs to another task.
   */
  static restore(checkpoint: Checkpoint, options: ContextOptions = {}): Context {
    checkOptions("Context.restore", options, { store: "any", config: "any" });
    if (!(checkpoint instanceof Checkpoint)) throw notACheckpoint(checkpoint);
    const { taskId, values, tokenUsage } = checkpoint;
    const store = options.store ?? originOf(checkpoint);
    const context = new Context(taskId, { ...options, ...(store === null ? {} : { store }) });
    context.#moveTo(ContextCursor.root(taskId, { values, tokens: tokenUsage }));
    context.#after = checkpoint.version;
    return context;
  }

  /** The values, by name. */
  get state(): ContextState {
    return this.#state;
  }

  /** Tokens used so far. A fork's count includes what its parent had used at the fork. */
  get tokenUsage(): TokenUsage {
    return Object.freeze({ ...tokensOf(this.#cursor.tree, this.#cursor.id) });
  }

  /** The same as {@link Context.store}, under orbiter's name. */
  get checkpoints(): CheckpointStore | null {
    return this.store;
  }

  /** The context that this one was forked from; `null` for a root and for a restored context. */
  get parent(): Context | null {
    return this.#parent;
  }

  /** Forks that were neither merged nor discarded yet. */
  get children(): readonly Context[] {
    return [...this.#children];
  }

  /**
   * Adds to the counters.
   *
   * @throws {HoldfastError} `USAGE` for a negative number or a fraction.
   */
  addTokens(tokens: TokenUsage): this {
    if (typeof tokens !== "object" || tokens === null || Array.isArray(tokens)) throw badTokens(tokens);
    this.#cursor.change((tree, id) => addTokens(tree, id, tokens));
    return this;
  }

  /**
   * Creates a child that sees this context's values and keeps its own changes to itself until it is merged. Its
   * snapshots are checkpoints of the task `taskId`, in the same store.
   *
   * @throws {HoldfastError} `USAGE` if the id is empty, or an open fork of this family has it.
   */
  fork(taskId: string): Context {
    const { config, store } = this;
    const child = new Context(taskId, { config, ...(store === null ? {} : { store: store.task(taskId) }) });
    child.#moveTo(this.#cursor.fork(taskId));
    child.#parent = this;
    this.#children.add(child);
    return child;
  }

  /**
   * Merges the values of a child, and the tokens that it used, into this context, once: afterwards the child is closed.
   *
   * A value that both have changed since the fork, differently, is a conflict. Unless `onConflict` names the winner,
   * nothing is merged then. Returns the conflicts that `onConflict` resolved.
   *
   * @throws {HoldfastError} `CONFLICT` with the conflicts in `data`; `USAGE` if it is not a child of this context, was
   * merged or discarded before, or has open forks itself.
   */
  merge(
    child: Context,
    options: { readonly onConflict?: "refuse" | "child_wins" | "parent_wins" } = {},
  ): readonly ContextConflict[] {
    checkOptions("merge", options, { onConflict: ["refuse", "child_wins", "parent_wins"] });
    this.#checkChild(child);
    const decided = this.#cursor.merge(child.#cursor, options.onConflict ?? "refuse");
    this.#children.delete(child);
    return decided;
  }

  /** Closes a child and its own forks. Its values are dropped; the tokens that it used remain counted. */
  discard(child: Context): void {
    this.#checkChild(child);
    this.#cursor.discard(child.#cursor, child.#below());
    this.#children.delete(child);
  }

  /**
   * Saves all values and counters, as they are at the call, as the task's next version. Durable when it resolves.
   *
   * @throws {HoldfastError} `USAGE` without a store; `LEASE_HELD` while another process writes the task; `LEASE_LOST`
   * if another process has taken over its lease.
   */
  async snapshot(options: { readonly metadata?: JsonObject } = {}): Promise<Checkpoint> {
    checkOptions("snapshot", options, { metadata: "any" });
    if (this.store === null) throw noStore(this.taskId);
    const { values, tokens } = snapshotContext(this.#cursor.tree, this.#cursor.id);
    const { metadata = {} } = options;
    return await this.store.save({ values, tokenUsage: tokens, metadata, after: this.#after });
  }

  /**
   * Resets this context in place to what a checkpoint of its task holds. Nothing is written: the history is kept, and
   * the next snapshot is a new version. Forks and parent remain, and a fork still sees its parent's values as they are
   * now.
   *
   * Counters are reset as well. With `tokens: "keep"` they keep their current values.
   *
   * @throws {HoldfastError} `USAGE` if it is not a checkpoint, or a checkpoint of another task.
   */
  restore(checkpoint: Checkpoint, options: { readonly tokens?: "saved" | "keep" } = {}): this {
    checkOptions("restore", options, { tokens: ["saved", "keep"] });
    if (!(checkpoint instanceof Checkpoint)) throw notACheckpoint(checkpoint);
    if (checkpoint.taskId !== this.taskId) throw wrongCheckpoint(checkpoint.taskId, this.taskId);
    const { values, tokenUsage } = checkpoint;
    const tokens = options.tokens === "keep" ? this.tokenUsage : tokenUsage;
    this.#cursor.change((tree, id) => rewindContext(tree, id, { values, tokens }));
    return this;
  }

  /** `Context(taskId="review", parent="release", children=2)`; without parent or open forks these are left out. */
  toString(): string {
    const parent = this.#parent === null ? "" : `, parent=${JSON.stringify(this.#parent.taskId)}`;
    const children = this.#children.size === 0 ? "" : `, children=${this.#children.size}`;
    return `Context(taskId=${JSON.stringify(this.taskId)}${parent}${children})`;
  }

  /** For `console.log`. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  #moveTo(cursor: ContextCursor): void {
    this.#cursor = cursor;
    this.#state = new ContextState(cursor);
  }

  #checkChild(child: Context): void {
    if (!(child instanceof Context) || child.#parent !== this) throw notForked(child, this.taskId);
  }

  #below(): readonly ContextCursor[] {
    return [...this.#children].flatMap((child) => [child.#cursor, ...child.#below()]);
  }
}

/** The parameters of {@link CheckpointStore.save}. */
export interface SaveParams {
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  /** Your own notes about the checkpoint. Default: empty. */
  readonly metadata?: JsonObject;
  /**
   * For the first checkpoint of a task whose history began elsewhere: it becomes version `after + 1`. Ignored once the
   * task is in the store.
   */
  readonly after?: number;
}

/**
 * The checkpoints of one task, version 1, 2, 3 …: on disk in the embedded store, where each survives kill -9 and power
 * loss once its save has resolved, or in memory on request. A task is a run of that store, so `holdfast list`,
 * `events`, `diff` and `verify` work on it.
 *
 * Any number of processes may read a task. One at a time writes it, from its first save (or `context()`) until it
 * closes the store or dies.
 *
 * @example
 * ```ts
 * await using store = await CheckpointStore.open("task-1", { store: "./state" });
 * const first = await store.save({ values: { step: 1 }, tokenUsage: { input_tokens: 100 } });
 * first.version; // 1
 * for await (const checkpoint of store) console.log(checkpoint.version, checkpoint.values);
 * ```
 */
export class CheckpointStore implements AsyncDisposable, AsyncIterable<Checkpoint> {
  /** The task whose checkpoints these are. */
  readonly taskId: string;
  readonly #tasks: Tasks;
  readonly #run: TaskRun;
  /** Whether this instance opened the underlying store and therefore closes it. */
  readonly #isFirst: boolean;

  private constructor(tasks: Tasks, taskId: string, role: "first" | "further") {
    this.#tasks = tasks;
    this.#run = tasks.run(taskId);
    this.taskId = this.#run.taskId;
    this.#isFirst = role === "first";
  }

  /**
   * Opens the checkpoints of a task. Nothing is written until the first save.
   *
   * @throws {HoldfastError} `USAGE` if the task id is empty; `RUN_EXISTS` if the store has a run of that name that is
   * not a task of this library; `NOT_A_REPOSITORY` if no directory is given and there is no repository; and the errors
   * of opening a store (`STORE_CORRUPT`, `DISK_FULL`, …).
   */
  static async open(taskId: string, options: OpenOptions = {}): Promise<CheckpointStore> {
    const tasks = await openTasks(options, taskId);
    try {
      const store = new CheckpointStore(tasks, taskId, "first");
      await store.size();
      return store;
    } catch (error) {
      await tasks.close();
      throw error;
    }
  }

  /**
   * Opens the checkpoints of a task in memory; they are lost when the process ends. For tests, and for work that need
   * not survive.
   */
  static inMemory(taskId: string): CheckpointStore {
    const store = openMemoryStore();
    return new CheckpointStore(new Tasks(store, { closeStore: () => store.close() }), taskId, "first");
  }

  /** The checkpoints of another task in the same store. */
  task(taskId: string): CheckpointStore {
    return new CheckpointStore(this.#tasks, taskId, "further");
  }

  /**
   * Returns a context that continues from the task's newest checkpoint, or is empty. It acquires the task's lease for
   * this process, so that a second process fails now and not after an hour of work.
   *
   * @throws {HoldfastError} `LEASE_HELD`, with the owner in `data`, while another live process writes the task.
   */
  async context(taskId: string = this.taskId, options: { readonly config?: ContextConfig } = {}): Promise<Context> {
    checkOptions("context", options, { config: "any" });
    const store = taskId === this.taskId ? this : this.task(taskId);
    await store.#run.hold(0);
    const latest = await store.latest();
    const given = { ...options, store };
    return latest === undefined ? new Context(taskId, given) : Context.restore(latest, given);
  }

  /**
   * Saves the task's next version. The parameters are copied at the call; the checkpoint is durable when the promise
   * resolves. Overlapping saves become versions in the order of the calls and share one disk flush.
   *
   * @throws {HoldfastError} `NOT_JSON` or `USAGE` for what cannot be saved; `LEASE_HELD` while another process writes
   * the task; `LEASE_LOST` if another process has taken over its lease. Nothing is saved then.
   */
  async save(params: SaveParams): Promise<Checkpoint> {
    checkOptions("save", params, { values: "any", tokenUsage: "any", metadata: "any", after: "count" });
    const { after = 0, ...fields } = params;
    // Built for its checks and copies only; the store assigns the real version.
    const { values, tokenUsage, metadata } = new Checkpoint({ ...fields, taskId: this.taskId, version: after + 1 });
    return rememberOrigin(await this.#run.save({ values, tokenUsage, metadata }, after), this);
  }

  /**
   * Reads one version and checks its digests.
   *
   * @throws {HoldfastError} `CHECKPOINT_NOT_FOUND`, with the newest version in `data`; `CHECKPOINT_DROPPED` if
   * retention removed it; `STORE_CORRUPT` if it is damaged.
   */
  async get(version: number): Promise<Checkpoint> {
    return rememberOrigin(await this.#run.get(version), this);
  }

  /** The newest checkpoint; `undefined` if there is none. */
  async latest(): Promise<Checkpoint | undefined> {
    const found = await this.#run.latest();
    return found === undefined ? undefined : rememberOrigin(found, this);
  }

  /** Number of the newest version; 0 if there is none. */
  async version(): Promise<number> {
    return await this.#run.newest();
  }

  /** Number of checkpoints. Smaller than `version()` if retention has removed some. */
  async size(): Promise<number> {
    return await this.#run.size();
  }

  /** Numbers of all versions, oldest first. */
  async listVersions(): Promise<readonly number[]> {
    return await this.#run.versions();
  }

  /** All existing checkpoints, oldest first, read one by one. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Checkpoint> {
    for (const version of await this.listVersions()) yield await this.get(version);
  }

  /** Releases the task. The instance that opened the store closes the store and all tasks that were opened through it. */
  async close(): Promise<void> {
    await (this.#isFirst ? this.#tasks.close() : this.#run.release());
  }

  /** For `await using`: {@link CheckpointStore.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** `CheckpointStore(taskId="task-1", checkpoints=3)`, with the last known count. */
  toString(): string {
    return `CheckpointStore(taskId=${JSON.stringify(this.taskId)}, checkpoints=${this.#run.counted})`;
  }

  /** For `console.log`. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}

/** The store that a checkpoint was read from or saved in, so that a context restored from it saves there. */
const origins = new WeakMap<Checkpoint, CheckpointStore>();

function rememberOrigin(checkpoint: Checkpoint, store: CheckpointStore): Checkpoint {
  origins.set(checkpoint, store);
  return checkpoint;
}

/** null for checkpoints that were constructed directly or read from a document. */
function originOf(checkpoint: Checkpoint): CheckpointStore | null {
  return origins.get(checkpoint) ?? null;
}

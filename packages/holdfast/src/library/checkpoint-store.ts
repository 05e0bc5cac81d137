import type { JsonObject } from "../core/json.ts";
import { checkOptions } from "../core/options.ts";
import { openMemoryStore } from "../stores/memory/memory-store.ts";
import { Checkpoint } from "./checkpoint.ts";
import type { TokenUsage } from "./checkpoint.ts";
import { Context } from "./context.ts";
import { rememberOrigin } from "./origin.ts";
import { Tasks, openTasks } from "./tasks.ts";
import type { OpenOptions } from "./tasks.ts";
import type { TaskRun } from "./task-run.ts";

/** What {@link CheckpointStore.save} saves. */
export interface SaveParams {
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  /** Whatever you want to remember about it. Default: nothing. */
  readonly metadata?: JsonObject;
  /**
   * For the first checkpoint of a task whose history began elsewhere: it becomes version `after + 1`. Not looked at once the
   * task is in the store.
   */
  readonly after?: number;
}

/**
 * The checkpoints of one task, version 1, 2, 3 …: on disk in the embedded store, where each survives kill -9 and power loss
 * once its save has resolved, or in memory when asked for. A task is a run of that store, so `holdfast list`, `log`, `diff` and
 * `verify` know it.
 *
 * Any number of processes may read a task; one at a time writes it, from its first save (or `context()`) until it closes the
 * store or dies.
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
  /** Did this one open the store underneath, and so closes it? */
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
   * @throws {HoldfastError} `USAGE` when the task id is empty; `RUN_EXISTS` when the store has a run of that name that is no task
   * of this library; `NOT_A_REPOSITORY` when no directory is given and there is no repository; and what opening a store
   * can meet (`STORE_CORRUPT`, `DISK_FULL`, …).
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

  /** The same in memory: gone with the process. For tests, and for work that need not survive. */
  static inMemory(taskId: string): CheckpointStore {
    const store = openMemoryStore();
    return new CheckpointStore(new Tasks(store, { closeStore: () => store.close() }), taskId, "first");
  }

  /** The checkpoints of another task of the same store. */
  task(taskId: string): CheckpointStore {
    return new CheckpointStore(this.#tasks, taskId, "further");
  }

  /**
   * A context that goes on from the task's newest checkpoint, or begins empty. It takes the task for this process, so that
   * a second one is told now and not after an hour of work.
   *
   * @throws {HoldfastError} `LEASE_HELD`, with the owner in `data`, while another live process writes the task.
   */
  async context(taskId: string = this.taskId): Promise<Context> {
    const store = taskId === this.taskId ? this : this.task(taskId);
    await store.#run.hold(0);
    const latest = await store.latest();
    return latest === undefined ? new Context(taskId, { store }) : Context.restore(latest, { store });
  }

  /**
   * Saves the task's next version. What is given is copied at the call; the checkpoint is durable when the promise resolves.
   * Saves that overlap become versions in the order of the calls, and share one disk flush.
   *
   * @throws {HoldfastError} `NOT_JSON` or `USAGE` for what cannot be saved; `LEASE_HELD` while another process writes the task;
   * `LEASE_LOST` when another process has taken it over. Nothing is saved then.
   */
  async save(params: SaveParams): Promise<Checkpoint> {
    checkOptions("save", params, ["values", "tokenUsage", "metadata", "after"]);
    const { after = 0, ...fields } = params;
    // Made for its checks and its copies; the version is the store's to give.
    const { values, tokenUsage, metadata } = new Checkpoint({ ...fields, taskId: this.taskId, version: after + 1 });
    return rememberOrigin(await this.#run.save({ values, tokenUsage, metadata }, after), this);
  }

  /**
   * One version, its digests checked.
   *
   * @throws {HoldfastError} `CHECKPOINT_NOT_FOUND`, with the newest version in `data`; `CHECKPOINT_DROPPED` when retention
   * removed it; `STORE_CORRUPT` when it is damaged.
   */
  async get(version: number): Promise<Checkpoint> {
    return rememberOrigin(await this.#run.get(version), this);
  }

  /** The newest checkpoint; `undefined` when there is none. */
  async latest(): Promise<Checkpoint | undefined> {
    const found = await this.#run.latest();
    return found === undefined ? undefined : rememberOrigin(found, this);
  }

  /** Number of the newest version; 0 when there is none. */
  async version(): Promise<number> {
    return await this.#run.newest();
  }

  /** How many checkpoints there are. Smaller than `version()` when retention has removed some. */
  async size(): Promise<number> {
    return await this.#run.size();
  }

  /** Numbers of all versions, oldest first. */
  async listVersions(): Promise<readonly number[]> {
    return await this.#run.versions();
  }

  /** All checkpoints that are there now, oldest first, read one by one. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Checkpoint> {
    for (const version of await this.listVersions()) yield await this.get(version);
  }

  /** Lets go of the task. The store that was opened first closes all, with the tasks that were opened through it. */
  async close(): Promise<void> {
    await (this.#isFirst ? this.#tasks.close() : this.#run.release());
  }

  /** For `await using`: {@link CheckpointStore.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** `CheckpointStore(taskId="task-1", checkpoints=3)`, as counted last. */
  toString(): string {
    return `CheckpointStore(taskId=${JSON.stringify(this.taskId)}, checkpoints=${this.#run.counted})`;
  }

  /** For `console.log`. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}

import { findStoreDirectory } from "../app/store-directory.ts";
import { checkOptions } from "../core/options.ts";
import { storeRetention } from "../core/retention/retention.ts";
import type { Parts } from "../engine/parts.ts";
import type { Store } from "../ports/store.ts";
import { openSqliteStore } from "../stores/sqlite/open.ts";
import { systemClock } from "../system/clock.ts";
import { randomId } from "../system/ids.ts";
import { livenessOf, processIdentity } from "../system/process-identity.ts";
import { badTaskId, inWordsOfTasks } from "./refusals.ts";
import { TaskRun } from "./task-run.ts";

/** Where the checkpoints of a task are kept, and how patient a write is. */
export interface OpenOptions {
  /**
   * A directory for the embedded store, or a store that you have opened yourself (it stays yours to close). Default:
   * HOLDFAST_STORE, else the store of the git repository that `cwd` is in.
   */
  readonly store?: string | Store;
  /** Where relative directories and the repository are looked for. Default: the current directory. */
  readonly cwd?: string;
  /** How long a write waits for a task that another live process is writing. Default 0: `LEASE_HELD` at once. */
  readonly leaseWaitMs?: number;
}

/** The tasks of one open store. One run a task, whoever asks for it, so that a process never competes with itself. */
export class Tasks {
  readonly #parts: Parts;
  readonly #closeStore: () => Promise<void>;
  readonly #runs = new Map<string, TaskRun>();

  constructor(store: Store, params: { readonly leaseWaitMs?: number; readonly closeStore: () => Promise<void> }) {
    this.#parts = partsOver(store, params.leaseWaitMs ?? 0);
    this.#closeStore = params.closeStore;
  }

  run(taskId: string): TaskRun {
    const known = this.#runs.get(taskId);
    if (known !== undefined) return known;
    if (typeof taskId !== "string" || taskId === "" || !taskId.isWellFormed()) throw badTaskId(taskId);
    const run = new TaskRun(this.#parts, taskId);
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
  checkOptions("CheckpointStore.open", options, ["store", "cwd", "leaseWaitMs"]);
  const { store, ...rest } = options;
  if (store !== undefined && typeof store !== "string") {
    return new Tasks(store, { ...rest, closeStore: () => Promise.resolve() });
  }
  try {
    const { cwd } = rest;
    const place = { ...(store === undefined ? {} : { store }), ...(cwd === undefined ? {} : { cwd }) };
    const opened = await openSqliteStore({ directory: await findStoreDirectory(place) });
    return new Tasks(opened, { ...rest, closeStore: () => opened.close() });
  } catch (error) {
    throw inWordsOfTasks(error, taskId);
  }
}

/** Values only: there is no worktree to capture, so no git is asked when a context is saved. */
function partsOver(store: Store, leaseWaitMs: number): Parts {
  return {
    store,
    workspaces: null,
    clock: systemClock,
    random: () => randomId().slice(0, 8),
    retention: storeRetention,
    maxUntrackedBytes: undefined,
    includeIgnored: false,
    ownsRefs: false,
    liveness: (owner) => livenessOf(owner, processIdentity()),
    leaseWaitMs,
    requests: null,
    worktreePath: undefined,
  };
}

import { HoldfastError } from "../core/error.ts";

/** What the context library refuses, in the words of its callers: tasks and versions, not runs and sequences. */

export function badTaskId(taskId: unknown): HoldfastError {
  const shown = taskId === "" ? "An empty text" : (JSON.stringify(taskId) ?? String(taskId));
  return new HoldfastError({
    code: "USAGE",
    message: `${shown} cannot be a task id`,
    hint: 'Give the task a name of its own, such as "task-1".',
    data: { taskId },
  });
}

export function foreignRun(params: { readonly taskId: string; readonly run: string }): HoldfastError {
  return new HoldfastError({
    code: "RUN_EXISTS",
    message: `The run ${params.run} of this store was not made for the task ${JSON.stringify(params.taskId)}`,
    hint: "Choose another task id, or another directory for the store.",
    data: params,
  });
}

export function noVersion(params: {
  readonly taskId: string;
  readonly version: unknown;
  /** Where its numbers begin; 1, unless its history began elsewhere. */
  readonly first: number;
  /** 0 when there is none. */
  readonly newest: number;
  readonly size: number;
}): HoldfastError {
  const { taskId, version, first, newest, size } = params;
  const whole = size === newest - first + 1;
  return new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Task ${JSON.stringify(taskId)} has no version ${String(version)}`,
    hint:
      size === 0
        ? "It has none yet: save one first."
        : `It has ${size} up to version ${newest}${whole && size > 1 ? `, from ${first} on` : ""}; listVersions() names them.`,
    data: { taskId, version, newest, size },
  });
}

export function wrongStore(taskId: string, storeTaskId: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `A context of task ${JSON.stringify(taskId)} cannot use the store of task ${JSON.stringify(storeTaskId)}`,
    hint: `Give it the store of its own task: store.task(${JSON.stringify(taskId)}).`,
    data: { taskId, storeTaskId },
  });
}

export function wrongCheckpoint(taskId: string, contextTaskId: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `The checkpoint is of task ${JSON.stringify(taskId)}, the context of ${JSON.stringify(contextTaskId)}`,
    hint: "Make a context of its own from it: Context.restore(checkpoint).",
    data: { taskId, contextTaskId },
  });
}

export function notForked(child: unknown, taskId: string): HoldfastError {
  const name = typeof child === "object" && child !== null && "taskId" in child ? JSON.stringify(child.taskId) : "This";
  return new HoldfastError({
    code: "USAGE",
    message: `${name} was not forked from the context of task ${JSON.stringify(taskId)}`,
    hint: "Only the context that fork() was called on can merge or discard what it returned.",
    data: { taskId },
  });
}

export function badTokens(tokens: unknown): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Tokens are counted by name, not as ${JSON.stringify(tokens) ?? String(tokens)}`,
    hint: "Give names and amounts: addTokens({ input_tokens: 100 }).",
  });
}

export function noStore(taskId: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `The context of task ${JSON.stringify(taskId)} has no store to save a snapshot in`,
    hint: "Get it from `await store.context()`, or give the store: `Context.restore(checkpoint, { store })`.",
    data: { taskId },
  });
}

export function notACheckpoint(value: unknown): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `A context is restored from a Checkpoint, not from ${value === null ? "null" : `a value of type ${typeof value}`}`,
    hint: "Read documents with Checkpoint.fromJSON(…), versions with `await store.get(version)`.",
  });
}

/** The store speaks of runs and leases; those who use this library opened a task. Every other error is passed on as it is. */
export function inWordsOfTasks(error: unknown, taskId: string): unknown {
  if (!(error instanceof HoldfastError)) return error;
  const told = wordsFor(error, JSON.stringify(taskId));
  if (told === undefined) return error;
  const { code, retry, data } = error;
  return new HoldfastError({ code, retry, ...told, data: { ...data, taskId }, cause: error });
}

function wordsFor(error: HoldfastError, task: string): { readonly message: string; readonly hint: string } | undefined {
  switch (error.code) {
    case "LEASE_HELD":
      return heldWords(error.data["owner"], task);
    case "LEASE_LOST":
      return {
        message: `Another process has taken over task ${task}; nothing was saved`,
        hint: "Close this store, open the task again, and go on from its newest checkpoint.",
      };
    case "CHECKPOINT_DROPPED":
      return {
        message: `A version of task ${task} was dropped on ${String(error.data["droppedAt"])}: ${String(error.data["why"])}`,
        hint: "Ask listVersions() for those that are still there.",
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
    hint: "Wait until it ends, or give leaseWaitMs to wait here; when it dies, the task is free at once. Reading needs no wait.",
  };
}

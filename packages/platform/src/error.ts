import { existsSync } from "node:fs";

/** Every failure a caller can meet, as one documented union. docs/errors.md is checked against this list. */
export const ERROR_CODES = [
  "USAGE", // the call itself is wrong: unknown flag, bad argument, bad id
  "UNTRUSTED_SETTINGS", // the repository's settings would run or change something that the user has not consented to
  "CONFIG_INVALID", // holdfast.config.yaml does not parse or does not fit
  "NOT_JSON", // a value that JSON cannot carry, with its path
  "RUN_NOT_FOUND",
  "RUN_EXISTS",
  "CHECKPOINT_NOT_FOUND",
  "CHECKPOINT_DROPPED", // retention removed it; the tombstone says when and why
  "NOTHING_TO_RESUME",
  "TAG_EXISTS",
  "LEASE_HELD", // another live process may write this run
  "LOOP_LIMIT", // as many loops as may be are at work in this repository
  "LEASE_LOST", // our epoch is stale: somebody took over
  "CONFLICT", // a compare-and-set failed: the head moved
  "STORE_ABSENT", // no store was ever made here
  "STORE_MISSING", // the database is gone although it was there before
  "STORE_CUT", // the database is older or shorter than the witness says
  "STORE_CORRUPT", // bytes do not match their digest, or the chain is broken
  "STORE_UNSAFE", // this SQLite or this file system cannot keep our promise
  "STORE_TOO_NEW", // written by a newer Holdfast
  "STORE_BUSY", // locked by another process for longer than we wait
  "STORE_READ_ONLY",
  "DISK_FULL",
  "IO_FAILED",
  "NOT_A_REPOSITORY",
  "GIT_FAILED",
  "GIT_MISSING",
  "WORKSPACE_MISSING",
  "WORKSPACE_BUSY", // git operation in progress, index locked, worktree being made, or processes of the run that cannot be ended
  "RESTORE_REFUSED", // applying the plan would lose something, or the world moved since the plan
  "TREE_MISSING", // a checkpoint's git objects are not in the repository
  "NEEDS_DECISION",
  "WORKFLOW_INVALID", // the definition does not hold together: unknown stage, missing transition
  "WORKFLOW_CHANGED", // the run began with another definition, or a stage asks for other steps than it finished
  "NOT_RECORDED", // the run was begun without a mode that records, so nothing can be replayed
  "REPLAY_DIVERGED", // what would be done now is not what was recorded; the first difference is named
  "RUN_FATAL", // the run ended for good; its reason is in the message
  "AGENT_FAILED",
  "FORGE_FAILED", // not reached, or no complete answer
  "FORGE_DENIED", // it knows us and says no, or does not know us
  "FORGE_REFUSED", // the request itself cannot be met: there is a pull request already, nothing to merge
  "FORMAT_INVALID", // a foreign document that does not fit its format
  "FORMAT_TOO_NEW", // its version is one that we do not know
  "FORMAT_DAMAGED", // its bytes cannot be read: cut, not UTF-8, a bomb
  "FORMAT_UNKNOWN", // no format claims it, or several do
  "INTERRUPTED",
  "UNSUPPORTED",
  "INTERNAL",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];
type Retry = "never" | "later" | "ask";

export interface ErrorParams {
  readonly code: ErrorCode;
  /** What failed, on what, why. One sentence, no trailing advice. */
  readonly message: string;
  /** What to do about it. */
  readonly hint?: string;
  readonly retry?: Retry;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

export class HoldfastError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly retry: Retry;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(params: ErrorParams) {
    super(params.message, params.cause === undefined ? undefined : { cause: params.cause });
    this.name = "HoldfastError";
    this.code = params.code;
    this.hint = params.hint;
    this.retry = params.retry ?? "never";
    this.data = params.data ?? {};
  }
}

/** The same object, each of whose methods rejects with HoldfastError only. All of them must be async. */
export function wrapMethodErrors<T extends object>(inner: T, place: string): T {
  return new Proxy(inner, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]) => wrapSystemErrors(place, async () => Reflect.apply(value, target, args));
    },
  });
}

/** Here what the system or Node itself throws becomes an error that says what to do; what is one already passes. */
export async function wrapSystemErrors<T>(place: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof HoldfastError ? error : describeFailure(error, place);
  }
}

function describeFailure(error: unknown, place: string): HoldfastError {
  const why = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? error.path : place;
  const facts = { data: { path, system: code }, cause: error };
  if (isSystemError(error) && !existsSync(place)) return workspaceMissing(place, error);
  switch (code) {
    case "ENOSPC":
    case "EDQUOT":
      return new HoldfastError({
        code: "DISK_FULL",
        message: `no space is left for ${path}: ${why}`,
        hint: "Free some space and run the command again; nothing was lost.",
        retry: "later",
        ...facts,
      });
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return new HoldfastError({
        code: "IO_FAILED",
        message: `${path} may not be read or written: ${why}`,
        hint: `Check who owns ${path}, its permissions, and whether its file system is mounted read-only.`,
        retry: "ask",
        ...facts,
      });
    case "ERR_INVALID_ARG_VALUE":
      return new HoldfastError({ code: "USAGE", message: `an argument cannot be used here: ${why}`, ...facts });
    default:
      return isSystemError(error)
        ? new HoldfastError({
            code: "IO_FAILED",
            message: `the system failed at ${path}: ${why}`,
            hint: "Look at the system log, the disk may be failing; then run the command again.",
            retry: "ask",
            ...facts,
          })
        : new HoldfastError({
            code: "INTERNAL",
            message: `unexpected failure in ${place}: ${why}`,
            hint: "This is a defect; please report it with the message above.",
            ...facts,
          });
  }
}

export function workspaceMissing(place: string, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `${place} is gone`,
    hint: "While its repository is there, so are its snapshots: make the worktree again and restore the last checkpoint into it.",
    cause,
  });
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}

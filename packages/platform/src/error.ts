// The one error class of Holdfast, its list of codes, and the conversion of system errors into it.

import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { inspect } from "node:util";

/** Every error code that a caller can receive. A test compares docs/errors.md with this list. */
export const ERROR_CODES = [
  "USAGE", // the call itself is wrong: unknown flag, invalid argument, invalid id
  "UNTRUSTED_SETTINGS", // the repository's settings would run or change something that the user has not approved
  "CONFIG_INVALID", // holdfast.config.yaml does not parse or does not match the schema
  "NOT_JSON", // a value that JSON cannot represent, with its path
  "VALUES_INVALID", // a run's values do not match the caller's schema, with the path; nothing was written
  "RUN_NOT_FOUND",
  "RUN_EXISTS",
  "CHECKPOINT_NOT_FOUND",
  "CHECKPOINT_DROPPED", // retention removed it; the tombstone records when and why
  "NOTHING_TO_RESUME",
  "TAG_EXISTS",
  "LEASE_HELD", // another live process holds the lease of this run
  "LOOP_LIMIT", // the loop concurrency limit of this repository is reached
  "LEASE_LOST", // our epoch is stale: another process took over the lease
  "CONFLICT", // a compare-and-set failed: the head moved
  "STORE_ABSENT", // no store was ever created here
  "STORE_MISSING", // the database existed before and is gone
  "STORE_CUT", // the database is older or shorter than its high-water mark
  "STORE_CORRUPT", // bytes do not match their digest, or the chain is broken
  "STORE_UNSAFE", // this SQLite version or this file system cannot guarantee durability
  "STORE_TOO_NEW", // written by a newer Holdfast
  "STORE_BUSY", // another process holds the lock for longer than our timeout
  "STORE_READ_ONLY",
  "DISK_FULL",
  "IO_FAILED",
  "NOT_A_REPOSITORY",
  "GIT_FAILED",
  "GIT_MISSING",
  "WORKSPACE_MISSING",
  "WORKSPACE_BUSY", // git operation in progress, index locked, worktree being created, or processes of the run that do not end
  "RESTORE_REFUSED", // applying the plan would lose data, or something changed since the plan was made
  "UNDO_REFUSED", // the effect cannot be undone; the message says why, and nothing was changed
  "TREE_MISSING", // a checkpoint's git objects are not in the repository
  "NEEDS_DECISION",
  "WORKFLOW_INVALID", // the definition is inconsistent: unknown stage, missing transition
  "WORKFLOW_CHANGED", // the run started with another definition, or a stage requests other steps than it completed before
  "NOT_RECORDED", // the run was started without a recording mode, so it cannot be replayed
  "REPLAY_DIVERGED", // the replay differs from the record; the message names the first difference
  "RUN_FAILED", // the run failed permanently; the message contains the reason
  "FORGE_FAILED", // the forge is unreachable or its response is incomplete
  "FORGE_DENIED", // the forge rejects our credentials or our permissions
  "FORGE_REFUSED", // the forge cannot do what the request asks: the pull request exists already, nothing to merge
  "FORMAT_INVALID", // an external document that does not match its format
  "FORMAT_TOO_NEW", // its version is newer than this Holdfast supports
  "FORMAT_DAMAGED", // its bytes cannot be read: truncated, not UTF-8, or a decompression bomb
  "FORMAT_UNKNOWN", // no format matches it, or several do
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
  /** The action or the command that fixes it. */
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

/** The call itself is wrong. */
export function usageError(message: string, hint?: string, data: ErrorParams["data"] = {}): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, ...(hint === undefined ? {} : { hint }), data });
}

/** Any value in an error message. Neither a cycle, a BigInt nor a symbol makes it fail. */
export function describeValue(value: unknown): string {
  const shown = typeof value === "string" ? JSON.stringify(value) : inspect(value, { depth: 0, breakLength: Infinity });
  return shown.length > MAX_SHOWN ? `${shown.slice(0, MAX_SHOWN)}…` : shown;
}

const MAX_SHOWN = 80;

/** The first items of a list in a message, and how many more there are. */
export function describeList(items: readonly string[], most = 5): string {
  const more = items.length > most ? ` and ${items.length - most} more` : "";
  return `${items.slice(0, most).join(", ")}${more}`;
}

/** Returns a proxy whose methods reject only with HoldfastError. Every method of `inner` must be async. */
export function wrapMethodErrors<T extends object>(inner: T, location: string): T {
  return new Proxy(inner, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]) =>
        wrapSystemErrors(location, async () => Reflect.apply(value, target, args));
    },
  });
}

/** Converts errors of the system or of Node into a HoldfastError with a hint. A HoldfastError passes unchanged. */
export async function wrapSystemErrors<T>(location: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof HoldfastError ? error : describeFailure(error, location);
  }
}

function describeFailure(error: unknown, location: string): HoldfastError {
  const why = error instanceof Error ? error.message : String(error);
  const code = errorCode(error);
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? error.path : location;
  const facts = { data: { path, system: code }, cause: error };
  if (isSystemError(error) && !existsSync(location)) return workspaceMissing(location, error);
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
        hint: `Check who owns ${existingPart(path)}, its permissions, and whether its file system is mounted read-only.`,
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
            hint: "Check the system log, because the disk may be failing; then run the command again.",
            retry: "ask",
            ...facts,
          })
        : new HoldfastError({
            code: "INTERNAL",
            message: `unexpected failure in ${location}: ${why}`,
            hint: "This is a defect; please report it with the message above.",
            ...facts,
          });
  }
}

/** The path, or the directory above it that exists: a file that could not be created is no help. */
function existingPart(path: string): string {
  const above = dirname(path);
  return existsSync(path) || above === path ? path : existingPart(above);
}

export function workspaceMissing(location: string, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `${location} is gone`,
    hint: "While its repository is there, so are its snapshots: make the worktree again and restore the last checkpoint into it.",
    cause,
  });
}

/** The code that Node or the system gave an error, such as ENOENT. */
export function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}

/** The exit statuses of the CLI, and which error code leads to which. */
import type { ErrorCode } from "@holdfast/platform/error";

/** The meaning of every exit status, for scripts. docs/errors.md and the command line use this table. */
export const EXITS = {
  done: { status: 0, about: "done" },
  failed: { status: 1, about: "failed; the message gives the reason and the remedy" },
  usage: { status: 2, about: "the command line or the config file is wrong; nothing was done" },
  nothing: { status: 3, about: "nothing to resume: no such run or checkpoint" },
  needs_you: { status: 4, about: "you must act: a decision, a login, a fix; nothing was changed" },
  held: {
    status: 5,
    about:
      "another live process holds the run's lease, another process took the run, or the loop concurrency limit is reached",
  },
  corrupt: { status: 6, about: "stored data is damaged or missing, or files of the run are on another machine" },
  waiting: { status: 7, about: "the run waits for quota, provider, forge, budget, CI or disk, and can then continue" },
  diverged: {
    status: 8,
    about: "a replay or rerun diverged from the record; the first difference is named",
  },
  interrupted: { status: 130, about: "interrupted (Ctrl+C); finished work is saved" },
  terminated: { status: 143, about: "terminated (SIGTERM, or the terminal was closed); finished work is saved" },
} as const;

export type Exit = keyof typeof EXITS;

/** A total record, so that a new error code cannot be forgotten. */
export const EXIT_OF: Readonly<Record<ErrorCode, Exit>> = {
  USAGE: "usage",
  UNTRUSTED_SETTINGS: "needs_you",
  CONFIG_INVALID: "usage",
  NOT_JSON: "failed",
  VALUES_INVALID: "failed",
  RUN_NOT_FOUND: "nothing",
  RUN_EXISTS: "failed",
  CHECKPOINT_NOT_FOUND: "nothing",
  CHECKPOINT_DROPPED: "nothing",
  NOTHING_TO_RESUME: "nothing",
  TAG_EXISTS: "needs_you",
  LEASE_HELD: "held",
  LOOP_LIMIT: "held",
  LEASE_LOST: "held",
  CONFLICT: "failed",
  STORE_ABSENT: "nothing",
  STORE_MISSING: "corrupt",
  STORE_CUT: "corrupt",
  STORE_CORRUPT: "corrupt",
  STORE_UNSAFE: "failed",
  STORE_TOO_NEW: "failed",
  STORE_BUSY: "failed",
  STORE_READ_ONLY: "failed",
  DISK_FULL: "failed",
  IO_FAILED: "failed",
  NOT_A_REPOSITORY: "failed",
  GIT_FAILED: "failed",
  GIT_MISSING: "failed",
  WORKSPACE_MISSING: "failed",
  WORKSPACE_BUSY: "failed",
  RESTORE_REFUSED: "needs_you",
  UNDO_REFUSED: "needs_you",
  TREE_MISSING: "corrupt",
  NEEDS_DECISION: "needs_you",
  WORKFLOW_INVALID: "usage",
  WORKFLOW_CHANGED: "needs_you",
  NOT_RECORDED: "nothing",
  REPLAY_DIVERGED: "diverged",
  RUN_FAILED: "failed",
  FORGE_FAILED: "failed",
  FORGE_DENIED: "failed",
  FORGE_REFUSED: "failed",
  FORMAT_INVALID: "corrupt",
  FORMAT_TOO_NEW: "corrupt",
  FORMAT_DAMAGED: "corrupt",
  FORMAT_UNKNOWN: "needs_you",
  INTERRUPTED: "interrupted",
  UNSUPPORTED: "failed",
  INTERNAL: "failed",
};

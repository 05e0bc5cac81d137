import type { ErrorCode } from "./error.ts";

/** The meaning of every exit status, for scripts. docs/errors.md and the command line print from this table. */
export const EXITS = {
  done: { status: 0, about: "done" },
  failed: { status: 1, about: "failed; the message says why and what to do" },
  usage: { status: 2, about: "the command line or the config file is wrong; nothing was done" },
  nothing: { status: 3, about: "nothing to resume: no such run or checkpoint" },
  decision: { status: 4, about: "needs a decision from you; nothing was changed" },
  held: { status: 5, about: "another live process holds the run" },
  corrupt: { status: 6, about: "stored data is damaged" },
  parked: { status: 7, about: "the run waits for something named (person, quota, budget, CI, disk)" },
  interrupted: { status: 130, about: "interrupted (Ctrl+C); what was finished is saved" },
  terminated: { status: 143, about: "terminated (SIGTERM); what was finished is saved" },
} as const;

export type Exit = keyof typeof EXITS;

/** Total, so that a new code cannot be forgotten. */
export const EXIT_OF: Readonly<Record<ErrorCode, Exit>> = {
  USAGE: "usage",
  CONFIG_INVALID: "usage",
  NOT_JSON: "failed",
  RUN_NOT_FOUND: "nothing",
  RUN_EXISTS: "failed",
  CHECKPOINT_NOT_FOUND: "nothing",
  CHECKPOINT_DROPPED: "nothing",
  NOTHING_TO_RESUME: "nothing",
  TAG_EXISTS: "decision",
  LEASE_HELD: "held",
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
  RESTORE_REFUSED: "decision",
  TREE_MISSING: "corrupt",
  NEEDS_DECISION: "decision",
  INTERRUPTED: "interrupted",
  UNSUPPORTED: "failed",
  INTERNAL: "failed",
};

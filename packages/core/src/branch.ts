// The interface of the git package for branches: commits, remotes, pushes and rebases.

import type { GitPath } from "./checkpoint.ts";

/**
 * The run's own branch and its remote. Every method may be repeated after a crash with the same result. Commits have fixed dates (the same
 * call makes the same id), refs move by compare-and-set, and a rebase is computed separately and applied atomically.
 * Only the run's own worktree and branch are touched. The repository's hooks run on push (a refusal is a value), never on commits.
 * GIT_FAILED for what git itself cannot do.
 */
export interface Branch {
  /** Short name: `holdfast/issue-42`. */
  readonly name: string;
  readonly root: string;

  head(): Promise<string>;
  /** Tree of a commit. */
  treeOf(commit: string): Promise<string>;
  /**
   * Commits the current files (tracked and untracked, not ignored, without `exclude`) on top of the head; the branch and the worktree's
   * index follow. Null when nothing would change. Two calls with the same `at` and the same files make one commit.
   */
  commit(params: CommitParams): Promise<{ readonly commit: string; readonly tree: string } | null>;

  /**
   * The remote of issues, pull requests and the base branch: upstream before origin, or as configured. Null: the repository has no remote.
   */
  remote(): Promise<Remote | null>;
  /**
   * The remote that the run's branch is pushed to, as git itself would push: origin when that is a fork of upstream. Null: the repository
   * has no remote.
   */
  pushRemote(): Promise<Remote | null>;
  /** Updates remote-tracking refs and deletes none; a failure is a value. */
  fetch(): Promise<{ readonly kind: "fetched" } | { readonly kind: "failed"; readonly refusal: PushRefusal }>;
  /** Commit of a branch as last fetched; a run's own branch is read from its push remote. Null when it does not exist. */
  remoteBranch(branch: string): Promise<string | null>;
  /** Asks the remote itself; for a run's own branch, its push remote. "unknown" when the remote does not answer. */
  lookUpRemote(branch: string): Promise<
    | { readonly kind: "known"; readonly commit: string | null }
    /** `isTemporary`: it may answer later without any help. */
    | { readonly kind: "unknown"; readonly reason: string; readonly isTemporary: boolean }
  >;
  /** From the remote's HEAD as last fetched, else main or master when exactly one exists; null when unknown. Asks a remote that was not fetched. */
  defaultBranch(): Promise<string | null>;

  /**
   * What a push would publish that the user must see first. It finds secrets, whichever commit adds them, and content that could not be
   * searched. It also finds messages that notify a group or close an issue other than `issue`.
   */
  inspectPush(params: { readonly issue: number | null }): Promise<PushInspection>;
  /**
   * Pushes the head to the branch of the same name. `expected`: what the remote must still have (null: nothing); it forces only over that.
   */
  push(params: { readonly expected: string | null }): Promise<PushResult>;
  /**
   * Rebases the branch's own commits onto `onto`, with the files. The rebase is computed in git objects first, so a conflict changes
   * nothing. `at` fixes committer dates. Throws WORKSPACE_BUSY for uncommitted local changes; untracked files that are not in the way
   * remain.
   */
  rebase(params: { readonly onto: string; readonly at: string }): Promise<RebaseResult>;
  /**
   * Writes the merge with its conflict markers into the files, for an agent to resolve. Nothing is committed and no git operation remains
   * in progress. Empty `files`: it merged cleanly after all. WORKSPACE_BUSY as for rebase.
   */
  placeConflict(params: { readonly onto: string }): Promise<{ readonly files: readonly GitPath[] }>;
  /** After placeConflict: commits the current files on top of `onto`. Returns "unresolved" while markers are left in `files`. */
  commitResolved(
    params: CommitParams & { readonly onto: string; readonly files: readonly GitPath[] },
  ): Promise<
    | { readonly kind: "committed"; readonly commit: string }
    | { readonly kind: "unresolved"; readonly files: readonly GitPath[] }
  >;

  isAncestor(params: { readonly ancestor: string; readonly of: string }): Promise<boolean>;
  mergeBase(params: { readonly a: string; readonly b: string }): Promise<string | null>;
  /** Subjects of the newest commits up to `from`, newest first, without merges. */
  subjects(params: { readonly from: string; readonly most: number }): Promise<readonly string[]>;
  /**
   * Regular files directly in these folders at a commit (".": the root) whose path is wanted: never links, and nothing that is only in the
   * worktree. A longer text is cut at a line end.
   */
  textsAt(params: {
    readonly commit: string;
    readonly folders: readonly string[];
    readonly maxBytes: number;
    wanted(path: GitPath): boolean;
  }): Promise<readonly { readonly path: GitPath; readonly text: string }[]>;
  /** Files that differ between a commit (or tree) and the current files, without `exclude`. */
  changedSince(params: { readonly from: string; readonly exclude: readonly string[] }): Promise<readonly ChangedFile[]>;
  /** Files that differ between two commits (or trees), without `exclude`. A renamed file is a deleted and an added one. */
  changedBetween(params: {
    readonly from: string;
    readonly to: string;
    readonly exclude: readonly string[];
  }): Promise<readonly ChangedFile[]>;
  diffSince(params: {
    readonly from: string;
    readonly exclude: readonly string[];
    readonly maxBytes: number;
  }): Promise<{ readonly text: string; readonly cut: boolean }>;
}

/** Opens the branch of a run's worktree. */
export interface Branches {
  of(worktree: string): Promise<Branch>;
  /** Queries of the remote and the history only, from any folder of the repository: also a bare one, or one with a detached HEAD. */
  asking(folder: string): Promise<Asking>;
}

export type Asking = Pick<
  Branch,
  "remote" | "pushRemote" | "fetch" | "remoteBranch" | "lookUpRemote" | "defaultBranch" | "isAncestor" | "mergeBase"
> & {
  /**
   * Undoes a push: puts a branch of the push remote from commit `from` back to commit `to`, or deletes it (null). The remote refuses if the
   * branch is not at `from` any more. Null: done.
   */
  readonly undoPush: (params: {
    readonly branch: string;
    readonly from: string;
    readonly to: string | null;
  }) => Promise<PushRefusal | null>;
};

export interface Remote {
  readonly name: string;
  /** As git uses it, without credentials. */
  readonly url: string;
  /** As written in the config, before git's own rewriting; without credentials. */
  readonly written: string;
}

export interface CommitParams {
  readonly message: string;
  /** Author and committer date, ISO 8601. */
  readonly at: string;
  /** Path prefixes that are never committed (`.tmp`). */
  readonly exclude: readonly string[];
}

export interface ChangedFile {
  readonly path: GitPath;
  readonly status: "added" | "modified" | "deleted" | "renamed" | "type_changed";
  /** The git object of the new content; null: deleted. */
  readonly digest: string | null;
}

export interface PushInspection {
  readonly secrets: readonly PushedSecret[];
  /** `kind` says what was not searched, and why. */
  readonly unsearched: readonly PushedSecret[];
  /** Lines of commit messages that take effect at the forge, with secrets masked. */
  readonly references: readonly { readonly commit: string; readonly text: string }[];
}

/** The position and the kind of a secret; never the secret itself. */
export interface PushedSecret {
  readonly commit: string;
  readonly path: string;
  readonly line: number;
  /** For people: "GitHub token". */
  readonly kind: string;
}

export type PushResult =
  | { readonly kind: "pushed"; readonly commit: string; readonly forced: boolean }
  | { readonly kind: "up_to_date"; readonly commit: string }
  | { readonly kind: "refused"; readonly refusal: PushRefusal };

/** The real cause, from git's report per ref (--porcelain), not from a phrase that every refusal prints. */
export interface PushRefusal {
  readonly cause:
    | "non_fast_forward"
    | "stale_lease"
    /** A hook of the remote rejected the commits. */
    | "hook"
    /** A hook of this repository rejected the commits. */
    | "local_hook"
    | "protected"
    /** The remote found a secret in the commits. */
    | "secret"
    | "auth"
    | "network"
    /** The remote itself failed and did not judge the commits: a lock, a full disk, an internal error. */
    | "remote"
    | "missing_remote"
    | "other";
  readonly message: string;
}

export type RebaseResult =
  | { readonly kind: "rebased"; readonly commit: string; readonly from: string }
  | { readonly kind: "up_to_date"; readonly commit: string }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

import type { GitPath } from "../core/checkpoint/checkpoint.ts";

/**
 * The run's own branch and the remote it goes to. Everything here may be called again after a crash and ends in the
 * same place: commits have pinned dates (the same call makes the same id), refs move by compare-and-set, a rebase is
 * made aside and taken over whole. Only the run's own worktree and branch are touched. The repository's hooks run on
 * push (a refusal is a value), never on commits. GIT_FAILED for what git itself cannot do.
 */
export interface Branch {
  /** Short name: `holdfast/issue-42`. */
  readonly name: string;
  readonly root: string;

  head(): Promise<string>;
  /** Tree of a commit. */
  treeOf(commit: string): Promise<string>;
  /**
   * The files as they are now (tracked and untracked, not ignored, without `exclude`) as a commit on top of the head; the branch and the
   * worktree's index follow. null when that would change nothing. Two calls with one `at` and the same files make one commit.
   */
  commit(params: CommitParams): Promise<{ readonly commit: string; readonly tree: string } | null>;

  /** Where issues, pull requests and the base branch are: upstream before origin, or as configured. null: the repository has no remote. */
  remote(): Promise<Remote | null>;
  /** Where the run's branch goes: as git itself would push, so to origin where that is a fork of upstream. null as above. */
  pushRemote(): Promise<Remote | null>;
  /** Updates remote-tracking refs and deletes none; the failure is a value. */
  fetch(): Promise<{ readonly kind: "fetched" } | { readonly kind: "failed"; readonly refusal: Refusal }>;
  /** Commit of a branch as last fetched, a run's own one from where it is pushed to; null when it is not there. */
  remoteBranch(branch: string): Promise<string | null>;
  /** Asks the remote itself, for a run's own branch the one that it is pushed to; "unknown" when it does not answer. */
  lookUpRemote(branch: string): Promise<
    | { readonly kind: "known"; readonly commit: string | null }
    /** `isTemporary`: it may answer later without any help. */
    | { readonly kind: "unknown"; readonly reason: string; readonly isTemporary: boolean }
  >;
  /** From the remote's HEAD, else main or master when exactly one is there; null when it cannot be told. */
  defaultBranch(): Promise<string | null>;

  /**
   * What a push would publish that the user must see first: secrets, whichever commit adds them; what could not be searched; and messages that
   * notify a group or close an issue other than `issue`.
   */
  inspectPush(params: { readonly issue: number | null }): Promise<PushInspection>;
  /** Pushes the head to the branch of the same name. `expected`: what the remote must still have (null: nothing); forces only over that. */
  push(params: { readonly expected: string | null }): Promise<PushResult>;
  /**
   * Puts the branch's own commits on top of `onto` and the files with them. Worked out in objects alone first: a conflict changes nothing
   * here. `at` pins committer dates. Local changes that are not committed: WORKSPACE_BUSY; untracked files that nothing lands on stay.
   */
  rebase(params: { readonly onto: string; readonly at: string }): Promise<RebaseResult>;
  /**
   * Puts the merge with its conflict marks into the files, for an agent to mend; nothing is committed and no operation is left under way.
   * Empty `files`: it merged cleanly after all. WORKSPACE_BUSY as for rebase.
   */
  placeConflict(params: { readonly onto: string }): Promise<{ readonly files: readonly GitPath[] }>;
  /** After placeConflict: the files as they are now as one commit on top of `onto`; refuses (value) while marks are left in `files`. */
  commitResolved(
    params: CommitParams & { readonly onto: string; readonly files: readonly GitPath[] },
  ): Promise<
    | { readonly kind: "committed"; readonly commit: string }
    | { readonly kind: "unresolved"; readonly files: readonly GitPath[] }
  >;

  isAncestor(params: { readonly ancestor: string; readonly of: string }): Promise<boolean>;
  mergeBase(params: { readonly a: string; readonly b: string }): Promise<string | null>;
  /** Files that differ between a commit (or tree) and the files now, `exclude` left out. */
  changedSince(params: { readonly from: string; readonly exclude: readonly string[] }): Promise<readonly ChangedFile[]>;
  diffSince(params: {
    readonly from: string;
    readonly exclude: readonly string[];
    readonly maxBytes: number;
  }): Promise<{ readonly text: string; readonly cut: boolean }>;
}

/** Opens the branch of a run's worktree. */
export interface Branches {
  of(worktree: string): Promise<Branch>;
  /** The remote and the history alone, from any folder of the repository: a bare one too, or one that stands on no branch. */
  asking(folder: string): Promise<Asking>;
}

export type Asking = Pick<
  Branch,
  "remote" | "pushRemote" | "fetch" | "remoteBranch" | "lookUpRemote" | "defaultBranch" | "isAncestor" | "mergeBase"
>;

export interface Remote {
  readonly name: string;
  /** As git uses it, without credentials. */
  readonly url: string;
  /** As it stands in the config, before git's own rewriting; without credentials. */
  readonly written: string;
}

export interface CommitParams {
  readonly message: string;
  /** Author and committer date, ISO 8601. */
  readonly at: string;
  /** Path prefixes that never get in (`.tmp`). */
  readonly exclude: readonly string[];
}

export interface ChangedFile {
  readonly path: GitPath;
  readonly status: "added" | "modified" | "deleted" | "renamed" | "type_changed";
}

export interface PushInspection {
  readonly secrets: readonly PushedSecret[];
  /** `kind` says what was not searched there, and why. */
  readonly unsearched: readonly PushedSecret[];
  /** Lines of commit messages that take effect at the forge, secrets masked. */
  readonly references: readonly { readonly commit: string; readonly text: string }[];
}

/** Where a secret stands, and of what kind it is; never the secret itself. */
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
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** The real cause, told from what git reports per ref (--porcelain), not from a phrase that every refusal prints. */
export interface Refusal {
  readonly cause:
    | "non_fast_forward"
    | "stale_lease"
    /** A hook of the remote judged the commits. */
    | "hook"
    /** A hook of this repository did. */
    | "local_hook"
    | "protected"
    /** The remote found a secret in the commits. */
    | "secret"
    | "auth"
    | "network"
    /** The remote itself failed, and judged nothing: a lock, a full disk, an internal error. */
    | "remote"
    | "missing_remote"
    | "other";
  readonly message: string;
}

export type RebaseResult =
  | { readonly kind: "rebased"; readonly commit: string; readonly from: string }
  | { readonly kind: "up_to_date"; readonly commit: string }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

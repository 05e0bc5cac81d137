import type { FilesPlane, GitPath, Skipped } from "../core/checkpoint/checkpoint.ts";
import type { Asides } from "./aside.ts";

export interface CheckoutState {
  readonly root: string;
  /** HEAD, refs and the files that git status lists, each with a text that changes when it does. */
  readonly state: ReadonlyMap<string, string>;
}

/**
 * Git worktrees and what is in them. Never touches the user's index, HEAD, stash, hooks, config, or a ref outside
 * refs/holdfast/ (it makes branches for runs, and moves none). Runs nothing that the repository names: no hook, filter, fsmonitor, alias, pager or external diff.
 */
export interface Workspaces {
  /** The git common directory: where a store of this repository lives. */
  readonly commonDir: string;
  readonly bare: boolean;
  /** Worktrees beside the runs' own. */
  readonly asides: Asides;
  /** The worktree at this path (or above it). WORKSPACE_MISSING when there is none. */
  open(path: string): Promise<Workspace>;
  /**
   * Rejects when `create` would find something in its way: a folder that is not empty (USAGE), a branch that is checked out
   * elsewhere (CONFLICT), a base that is no commit (USAGE). Makes nothing.
   */
  check(params: CreateWorkspace): Promise<void>;
  /** A new worktree and branch for a run. The same call again returns the one that is there. */
  create(params: CreateWorkspace): Promise<Workspace>;
  /** The worktree made for this run; undefined when there is none, or its folder is gone. */
  find(run: string): Promise<Workspace | undefined>;
  list(): Promise<readonly WorktreeInfo[]>;
  /**
   * RESTORE_REFUSED (data: what would be lost) when it holds changes or ignored files, or commits that no other branch or remote has,
   * unless `force`. Its branch is kept.
   */
  remove(params: { readonly run: string; readonly force?: boolean }): Promise<void>;

  /** The user's main checkout as it is now; null where there is none beside the worktree at `runRoot`, or it cannot be read. Changes nothing. */
  mainCheckout(runRoot: string): Promise<CheckoutState | null>;

  /** Are the objects that the plane names here, whole? */
  has(files: Pick<FilesPlane, "tree" | "commit">): Promise<boolean>;
  /** Pins an existing snapshot under another run's name (a fork). Durable when it returns. */
  pin(params: { readonly run: string; readonly sequence: number; readonly commit: string }): Promise<string>;
  /** Every snapshot ref under refs/holdfast/, as run and sequence; with `run` only those of this run. */
  refs(run?: string): Promise<readonly SnapshotRef[]>;
  /** Removes these refs (snapshots and asides under refs/holdfast/). Gone already is no error. */
  unpin(refs: readonly string[]): Promise<void>;
  /**
   * Removes the locks that a killed git left in the worktree made for this run, in its side worktrees and on its branch (full
   * name); returns their paths. Only for a caller that holds the run's lease and has ended every process of the run. A lock in a
   * worktree of the user's, or on a branch that such a worktree has checked out, is never removed.
   */
  clearLocks(params: { readonly run: string; readonly branch: string | null }): Promise<readonly string[]>;
  /** Those of the commits that no branch, tag or remote-tracking ref reaches: our refs may be their only copy. */
  unpublished(commits: readonly string[]): Promise<ReadonlySet<string>>;
  /**
   * Holds on to a commit that no snapshot names (another tip of the branch, files that lay in the way) until somebody removes its
   * ref by hand; returns the ref. TREE_MISSING when the commit is not here. Durable when it returns.
   */
  keep(params: { readonly run: string; readonly commit: string }): Promise<string>;
  /** Commit of a branch (full name); null when there is no such branch. */
  branchTip(branch: string): Promise<string | null>;
  /** Makes the branch (full name) of a run anew. It never moves one: CONFLICT when it stands elsewhere. Durable when it returns. */
  createBranch(params: { readonly branch: string; readonly commit: string }): Promise<void>;
  diff(params: DiffParams): Promise<Diff>;
  /** Every file of a tree or commit, in git's order. TREE_MISSING when it is not here. */
  filesOf(tree: string): Promise<readonly GitPath[]>;
  close(): Promise<void>;
}

export interface CreateWorkspace {
  readonly run: string;
  /** Where; default `<parent of the main worktree>/<repo name>-worktrees/<run>`, or inside a bare repository `<repo>/trees/<run>`. */
  readonly path?: string;
  /** Default `holdfast/<run>`. */
  readonly branch?: string;
  /** Commit-ish to start from; default the current HEAD. */
  readonly base?: string;
}

export interface WorktreeInfo {
  readonly path: string;
  /** Made for this run, or aside of its own. */
  readonly run: string | null;
  readonly aside: boolean;
  readonly branch: string | null;
  readonly head: string | null;
  readonly exists: boolean;
}

export interface SnapshotRef {
  readonly ref: string;
  readonly run: string;
  readonly sequence: number;
  readonly commit: string;
  /** HEAD when it was taken; null in a repository without commits. */
  readonly head: string | null;
  readonly createdAt: string;
}

export interface Workspace {
  readonly root: string;
  /** Durable when it returns: objects, ref and their directories are synced. Pins `refs/holdfast/<run>/<sequence>`. */
  snapshot(params: SnapshotParams): Promise<FilesPlane>;
  /** A snapshot that nothing holds on to: no ref, not synced. To plan with, not to keep; git's own gc takes it after a while. */
  look(params: Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored">): Promise<Look>;
  /** What `snapshot` would hold and leave out, without pinning: for asking "did anything change?". */
  currentFiles(params?: Pick<SnapshotParams, "maxUntrackedBytes" | "includeIgnored">): Promise<CurrentFiles>;
  /**
   * Pure look: what a restore would do. `from` is a snapshot of the worktree as it is now. TREE_MISSING (data: the commit) when
   * something that the restore would read is not there, or not whole; the rest of the target is not looked at.
   */
  planRestore(params: {
    readonly from: Look;
    readonly to: Look;
    readonly paths?: readonly string[];
  }): Promise<RestorePlan>;
  /**
   * Makes the files equal the plan's target. Idempotent: killed half-way, the same call on a new plan finishes the job.
   * RESTORE_REFUSED, and nothing changed, when the worktree is not any more what the plan was made from, when an
   * ignored or skipped file or a nested repository stands in the way, or when another git operation is under way.
   */
  applyRestore(plan: RestorePlan): Promise<RestoreResult>;
  /**
   * The worktree knows its repository, and HEAD names this branch again; files stay as they are, and the index too unless commits are dropped. Was there anything to do? A git operation
   * (a rebase, a merge) that is under way is given up where it stands: for worktrees of runs only, when whoever began it is gone.
   */
  standOn(params: StandOn): Promise<boolean>;
}

export interface StandOn {
  /** Full name. Made again at `head` when it is gone. */
  readonly branch: string;
  readonly head: string;
  /** What was committed on the branch since `head`. */
  readonly commits: "keep" | "drop";
}

export type CurrentFiles = Pick<FilesPlane, "tree" | "skipped" | "nested">;

export type Look = Omit<FilesPlane, "ref">;

export interface SnapshotParams {
  readonly run: string;
  readonly sequence: number;
  readonly message: string;
  /** Commit date of the snapshot, ISO 8601: given, so that the same snapshot has the same id. */
  readonly at: string;
  /** Untracked files above this are skipped and named. Default 20 MiB. */
  readonly maxUntrackedBytes?: number;
  readonly includeIgnored?: boolean;
  readonly base?: string;
}

export type FileChange =
  | { readonly kind: "write"; readonly path: GitPath; readonly mode: string }
  | { readonly kind: "create"; readonly path: GitPath; readonly mode: string }
  | { readonly kind: "remove"; readonly path: GitPath }
  | { readonly kind: "mode"; readonly path: GitPath; readonly mode: string };

export interface RestorePlan {
  readonly root: string;
  readonly fromTree: string;
  /** Tree of the snapshot that is restored. */
  readonly targetTree: string;
  /** Tree the worktree will have afterwards (for a per-path restore, `from` with those paths replaced). */
  readonly toTree: string;
  readonly paths: readonly string[] | null;
  readonly changes: readonly FileChange[];
  /**
   * Left alone although the target lacks or has them: skipped files, nested repositories, files that a sparse checkout keeps off
   * the disk, and files that the target's own ignore rules cover (they may have been there, ignored, when it was taken).
   */
  readonly untouched: readonly Untouched[];
  /** Ignored or skipped files that a write would land on, and git repositories that a file would be written into. Not empty: applyRestore refuses. */
  readonly blocked: readonly GitPath[];
  /** Files that are ignored now, and that the target's ignore rules do not cover: they stay, and the next snapshot holds them. */
  readonly exposed: readonly GitPath[];
  /** How `from` was captured; the world is compared with it in the same way. Absent: the defaults. */
  readonly capture?: { readonly maxUntrackedBytes: number; readonly includeIgnored: boolean };
}

export interface Untouched {
  readonly path: GitPath;
  readonly reason: Skipped["reason"] | "ignored" | "sparse";
  readonly bytes: number | null;
}

export interface RestoreResult {
  readonly tree: string;
  readonly written: number;
  readonly removed: number;
}

export interface DiffParams {
  readonly from: string;
  readonly to: string;
  readonly paths?: readonly string[];
  /** "counts": a line a file, in the order of `files`: lines added, a tab, lines removed (`-` and `-`: binary), a tab, the name. */
  readonly format: "patch" | "stat" | "names" | "counts";
  readonly color?: boolean;
}

export interface Diff {
  readonly text: string;
  readonly files: readonly {
    readonly path: GitPath;
    readonly status: "added" | "modified" | "deleted" | "renamed" | "type_changed";
    readonly from: GitPath | null;
  }[];
}

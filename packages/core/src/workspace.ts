import type { FilesPlane, GitPath, Skipped } from "./checkpoint.ts";
import { type Json, isJsonObject, pureSha256 } from "./json.ts";
import type { StageAttempt } from "./position.ts";

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
  look(params: Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored">): Promise<PreviewSnapshot>;
  /** What `snapshot` would hold and leave out, without pinning: for asking "did anything change?". */
  currentFiles(params?: Pick<SnapshotParams, "maxUntrackedBytes" | "includeIgnored">): Promise<CurrentFiles>;
  /**
   * Pure look: what a restore would do. `from` is a snapshot of the worktree as it is now. TREE_MISSING (data: the commit) when
   * something that the restore would read is not there, or not whole; the rest of the target is not looked at.
   */
  planRestore(params: {
    readonly from: PreviewSnapshot;
    readonly to: PreviewSnapshot;
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
  standOn(params: BranchTarget): Promise<boolean>;
}

export interface BranchTarget {
  /** Full name. Made again at `head` when it is gone. */
  readonly branch: string;
  readonly head: string;
  /** What was committed on the branch since `head`. */
  readonly commits: "keep" | "drop";
}

export type CurrentFiles = Pick<FilesPlane, "tree" | "skipped" | "nested">;

export type PreviewSnapshot = Omit<FilesPlane, "ref">;

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

/**
 * Worktrees beside a run's own, in which agents work at the same time without seeing each other's half work. Each stands on no branch, so
 * whatever an agent commits there moves nothing of the user's. Nothing outside of refs/holdfast/ and the aside's own folder is touched.
 */
export interface Asides {
  /**
   * These files as a commit of their own on top of the head that they were seen on, pinned under refs/holdfast/<run>/aside/<commit>. Durable when it returns.
   */
  base(params: { readonly run: string; readonly files: PreviewSnapshot; readonly at: string }): Promise<string>;
  /** Pins a commit in the same place. The name says what it holds: a second call finds it made. Durable when it returns. */
  pin(params: { readonly run: string; readonly commit: string }): Promise<string>;
  /** Where `place` puts it. */
  rootOf(params: AsideName): string;
  /**
   * The aside with the files of `commit`, on its head: made when it is not there, left alone when it stands there already, else made anew (what lay there is
   * pinned first; ignored files go). Killed half-way, the same call finishes the job. TREE_MISSING when the commit is not here.
   */
  place(params: AsideName & { readonly commit: string; readonly base: string }): Promise<Workspace>;
  /** The aside as it is; undefined when it is not there, or not whole. */
  find(params: AsideName): Promise<Workspace | undefined>;
  /** Of this run, or of all; the folder of one may be gone. */
  list(run?: string): Promise<readonly AsideInfo[]>;
  /** What lies there is pinned first, unless it is what `holding` holds. Gone already is no error. */
  remove(params: { readonly run: string; readonly key: string; readonly holding?: string }): Promise<void>;
  /** Every ref that `base` and `pin` made and nobody removed. */
  refs(): Promise<readonly AsideRef[]>;
  /**
   * What changed from `base` to `theirs`, put on top of `ours`, in objects alone: renames are followed file by file, no driver or attribute of the repository
   * is heeded. `to` can be restored to; it is not pinned.
   */
  merge(params: {
    readonly base: string;
    readonly ours: PreviewSnapshot;
    readonly theirs: string;
  }): Promise<AsideMerge>;
  /** Tree of a commit. TREE_MISSING when it is not here. */
  treeOf(commit: string): Promise<string>;
}

export interface AsideName {
  readonly run: string;
  /** The step's; any text. */
  readonly name: string;
  /** The folder that it lies beside, as `<beside>.aside/`; default where the run's own worktree would be. */
  readonly beside?: string;
}

export interface AsideInfo {
  readonly run: string;
  /** As made of the name. */
  readonly key: string;
  readonly path: string;
  readonly exists: boolean;
}

export interface AsideRef {
  readonly ref: string;
  readonly run: string;
  readonly commit: string;
  readonly createdAt: string;
}

export type AsideMerge =
  | { readonly kind: "merged"; readonly to: PreviewSnapshot }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

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
  fetch(): Promise<{ readonly kind: "fetched" } | { readonly kind: "failed"; readonly refusal: PushRefusal }>;
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
  | { readonly kind: "refused"; readonly refusal: PushRefusal };

/** The real cause, told from what git reports per ref (--porcelain), not from a phrase that every refusal prints. */
export interface PushRefusal {
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

/** What the step that opens an aside leaves in the visit. */
export type AsideOpened = {
  readonly kind: "aside.opened";
  readonly base: string;
  readonly skipped: readonly { readonly [K in keyof Skipped]: Skipped[K] }[];
};

/** What the step that merges or gives up an aside leaves there. */
export type AsideClosed = { readonly kind: "aside.closed"; readonly aside: string };

/** Safe in a path whatever the name, and another one for every other name. */
export function asideKey(name: string): string {
  const words = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 32)
    .replace(/-+$/, "");
  const digest = pureSha256(name).slice(0, 10);
  return words === "" ? digest : `${words}-${digest}`;
}

/** Names of the asides that the visit opened and did not close: their folders are needed. */
export function openAsides(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const opened = new Set<string>();
  const closed = new Set<string>();
  for (const [name, result] of steps) {
    if (!isJsonObject(result)) continue;
    if (result["kind"] === "aside.opened") opened.add(name);
    if (result["kind"] === "aside.closed" && typeof result["aside"] === "string") closed.add(result["aside"]);
  }
  for (const name of closed) opened.delete(name);
  return opened;
}

/** Commits without which the asides that the visit holds open could not be made again or merged: each one's base, and what calls in it came to. */
export function neededAside(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const all = [...steps];
  const open = openAsides(all);
  const needed = new Set<string>();
  for (const [name, result] of all) {
    if (!isJsonObject(result)) continue;
    const { kind, base, commit, aside } = result;
    if (kind === "aside.opened" && open.has(name) && typeof base === "string") needed.add(base);
    const where = isJsonObject(aside) ? aside["name"] : undefined;
    if (typeof where === "string" && open.has(where) && typeof commit === "string") needed.add(commit);
  }
  return needed;
}

/**
 * Calls in asides that were under way begin anew where the run went back or was forked: their sessions remember what no files have any more, and the
 * aside is made again.
 */
export function forgetAsideCalls(visit: StageAttempt): StageAttempt {
  const { asides, ...rest } = visit;
  if (asides === undefined) return visit;
  const without = <T>(record: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(record).filter(([step]) => !Object.hasOwn(asides, step)));
  return {
    ...rest,
    ...(rest.running === undefined ? {} : { running: without(rest.running) }),
    ...(rest.sessions === undefined ? {} : { sessions: without(rest.sessions) }),
  };
}

/** The newest commit of an aside, as the finished calls in it tell: the one that no other began from. */
export function asideTip(
  steps: Iterable<readonly [string, Json]>,
  aside: { readonly name: string; readonly base: string },
): string {
  const next = new Map<string, string>();
  for (const [, result] of steps) {
    if (!isJsonObject(result) || !isJsonObject(result["aside"])) continue;
    const { commit, aside: where } = result;
    const { name, from } = where;
    if (name === aside.name && typeof from === "string" && typeof commit === "string" && commit !== from)
      next.set(from, commit);
  }
  let tip = aside.base;
  for (let after = next.get(tip); after !== undefined; after = next.get(tip)) {
    next.delete(tip);
    tip = after;
  }
  return tip;
}

/**
 * The repository's main worktree, in which users and other tools look for files, and which outlives the worktrees of runs. Of a bare repository
 * the first worktree that belongs to no run; without one, and without a repository, `cwd`.
 */
export async function mainWorktreeRoot(workspaces: Pick<Workspaces, "list"> | null, cwd: string): Promise<string> {
  const worktrees = (await workspaces?.list()) ?? [];
  return worktrees.find(({ exists, run }) => exists && run === null)?.path ?? cwd;
}

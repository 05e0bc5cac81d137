// The interfaces of the git package that core uses: worktrees, snapshots, restores and side worktrees.

import type { CheckpointId, FilesPlane, GitPath, Skipped } from "./checkpoint.ts";
import type { PushRefusal } from "./branch.ts";
import { sha256 } from "./json.ts";

/** The user's own worktree, as far as a new run depends on it. */
export interface CheckoutFacts {
  readonly root: string;
  /** null: the repository has no commit yet. */
  readonly head: string | null;
  /** Full name; null: HEAD is detached. */
  readonly branch: string | null;
  /** The git operation in progress, such as "merge" or "rebase". */
  readonly operation: string | null;
  /** Files with uncommitted changes, and untracked ones. Ignored files and Holdfast's own are left out. */
  readonly changed: readonly string[];
  /** Whether git knows a name and an email of the user. Without them commits are by Holdfast. */
  readonly hasIdentity: boolean;
}

export interface CheckoutState {
  readonly root: string;
  /** HEAD, refs, the files that git status lists, git's hooks and config: each with a text that changes when it does. */
  readonly state: ReadonlyMap<string, string>;
}

/**
 * Git worktrees and their content. It never touches the user's index, HEAD, stash, hooks, config, or a ref outside refs/holdfast/. (It
 * creates branches for runs, and moves none.) It runs nothing that the repository names: no hook, filter, fsmonitor, alias, pager or
 * external diff.
 */
export interface Workspaces {
  /** The git common directory: a store of this repository is there. */
  readonly commonDir: string;
  readonly bare: boolean;
  /** The side worktrees of runs. */
  readonly sideWorktrees: SideWorktrees;
  /** The worktree at this path or above it. WORKSPACE_MISSING when there is none. */
  open(path: string): Promise<Workspace>;
  /**
   * Rejects when `create` could not succeed. USAGE: the folder is not empty, or the base is not a commit. CONFLICT: the branch is checked
   * out elsewhere. Creates nothing.
   */
  check(params: CreateWorkspace): Promise<void>;
  /** Creates a worktree and a branch for a run. The same call again returns the existing one. */
  create(params: CreateWorkspace): Promise<Workspace>;
  /** The worktree made for this run; undefined when there is none, or its folder is gone. */
  find(run: string): Promise<Workspace | undefined>;
  list(): Promise<readonly WorktreeInfo[]>;
  /**
   * Removes the run's worktree and keeps its branch. Unless `force` is set, throws RESTORE_REFUSED (data: what would be lost) when it has
   * changes, ignored files, or commits that no other branch or remote has. `check` sees it once more after it was moved out of its place;
   * if it throws, the worktree goes back.
   */
  remove(params: { readonly run: string; readonly force?: boolean; readonly check?: WorktreeCheck }): Promise<void>;

  /** The content of the run's worktree that no checkpoint holds; null: the run has none. */
  inspectWorktree(run: string): Promise<WorktreeContent | null>;
  /**
   * What a run has in the repository, and what of it would be lost with it. Of its newest checkpoint: `branch` (full name) and `head`.
   * Changes nothing.
   */
  inspectRun(params: InspectRun): Promise<RunRemains>;
  /**
   * Removes what `expected` names. Asks nothing. A repeated call completes an interrupted one. CONFLICT: the worktree has a loss that
   * `expected` does not name, or the branch moved or was checked out.
   */
  removeRun(params: {
    readonly run: string;
    readonly expected: RunRemains;
    /** As for `remove`. */
    readonly check?: WorktreeCheck;
  }): Promise<void>;

  /**
   * The current state of the user's main checkout. Null when there is none besides the worktree at `runRoot`, or it cannot be read. Changes
   * nothing.
   */
  mainCheckout(runRoot: string): Promise<CheckoutState | null>;

  /**
   * The worktree in which the user is. Null: in a bare repository or a git directory. It only reads: no lock, no index
   * refresh, no filter.
   */
  describeCheckout(): Promise<CheckoutFacts | null>;

  /**
   * Whether the objects of the plane exist and are complete. `treeIsWhole`: those of its tree are known to be, so only the snapshot is read.
   */
  has(
    files: Pick<FilesPlane, "tree" | "snapshot"> & Partial<Pick<FilesPlane, "ref">>,
    options?: { readonly treeIsWhole?: boolean },
  ): Promise<boolean>;
  /** Pins an existing snapshot under another run's name (for a fork). Durable when it returns. */
  pin(params: { readonly run: string; readonly sequence: number; readonly snapshot: string }): Promise<string>;
  /** Every snapshot ref under refs/holdfast/, as run and sequence; with `run` only those of this run. */
  refs(run?: string): Promise<readonly SnapshotRef[]>;
  /** Bytes on disk of the objects that only refs under refs/holdfast/ keep; with `run` only those of this run. */
  pinnedBytes(run?: string): Promise<number>;
  /** Removes these refs (snapshots and side worktrees under refs/holdfast/). A missing ref is not an error. */
  unpin(refs: readonly string[]): Promise<void>;
  /**
   * Removes the locks that a killed git left in the run's worktree, in its side worktrees and on its branch (full name); returns their
   * paths. Only for a caller that holds the run's lease and has ended every process of the run. It never removes a lock in a user's
   * worktree, or on a branch that such a worktree has checked out.
   */
  clearLocks(params: { readonly run: string; readonly branch: string | null }): Promise<readonly string[]>;
  /** Those of the commits that no branch, tag or remote-tracking ref reaches: Holdfast's refs may be their only copy. */
  unpublished(commits: readonly string[]): Promise<ReadonlySet<string>>;
  /** Those of the commits that no ref of a run protects. */
  unpinned(commits: readonly string[]): Promise<ReadonlySet<string>>;
  /**
   * Keeps a commit or snapshot that no checkpoint names (another tip of the branch, replaced files) until the user removes its ref by hand; returns the
   * ref. TREE_MISSING when the commit does not exist here. Durable when it returns.
   */
  keep(params: { readonly run: string; readonly commit: string }): Promise<string>;
  /** Commit of a branch (full name); null when there is no such branch. */
  branchTip(branch: string): Promise<string | null>;
  /** The file at this path from the root in the commit (or HEAD); null when there is none. */
  fileMode(params: { readonly commit: string; readonly path: string }): Promise<"plain" | "executable" | null>;
  /** Recreates the branch (full name) of a run. It never moves one: CONFLICT when it exists at another commit. Durable when it returns. */
  createBranch(params: { readonly branch: string; readonly commit: string }): Promise<void>;
  /** The objects that the run's refs keep and that no remote-tracking branch has. GIT_FAILED beyond `maxBytes`. */
  packRun(params: { readonly run: string; readonly maxBytes: number }): Promise<PackedObjects>;
  /** The files and messages in that pack. `isCut`: there are more than `maxBytes`. */
  readPackedTexts(params: {
    readonly packed: Pick<PackedObjects, "refs" | "prerequisites">;
    readonly maxBytes: number;
  }): Promise<{ readonly texts: readonly ObjectText[]; readonly isCut: boolean }>;
  /**
   * Writes the objects of a run of another clone, and no ref. NEEDS_DECISION when this repository lacks a commit that they build on;
   * FORMAT_DAMAGED when they are not whole or not safe. The same call again changes nothing.
   */
  unpackRun(params: { readonly run: string; readonly packed: PackedObjects }): Promise<void>;
  /** Creates the refs of an unpacked run. Durable when it returns. */
  pinRun(params: { readonly run: string; readonly refs: PackedObjects["refs"] }): Promise<void>;
  /** The files of a store's runs on a git remote: its name or URL. `store`: the store's id. */
  filesRemote(remote: string, store: string): Promise<FilesRemote>;
  /** The commit that a user names; null when there is none. */
  describeCommit(name: string): Promise<DescribedCommit | null>;
  diff(params: DiffParams): Promise<Diff>;
  /** The difference of two trees in parts that a user can choose singly, in git's order. */
  patches(params: { readonly from: string; readonly to: string }): Promise<readonly FilePatch[]>;
  /** The snapshot `to`, with the files of tree `from` and these parts of its patches. It can be restored to; it is not pinned. */
  withPatches(params: {
    readonly from: string;
    readonly to: PreviewSnapshot;
    readonly patches: readonly FilePatch[];
  }): Promise<PreviewSnapshot>;
  /** Every file of a tree or commit, in git's order. TREE_MISSING when it does not exist here. */
  filesOf(tree: string): Promise<readonly GitPath[]>;
  close(): Promise<void>;
}

/** The changes of one file, as git prints them. Each character is one byte of the patch, because files may have any encoding. */
export interface FilePatch {
  readonly path: GitPath;
  /** The lines before the first hunk; "": the file is one part and has its own header. */
  readonly header: string;
  readonly hunks: readonly string[];
}

/**
 * The snapshots of runs on a git remote, each run in one ref: refs/holdfast/<run>/files/<store>. Only what is missing is sent, in either direction.
 * A killed call is completed by the next one.
 */
export interface FilesRemote {
  /** Without credentials. */
  readonly url: string;
  /** Sends what the remote lacks. What a push of commits would stop at is not sent, unless `withSecrets` is set. */
  push(params: {
    readonly run: string;
    readonly withSecrets?: boolean;
    readonly signal?: AbortSignal;
  }): Promise<FilesPush>;
  /** Writes what is missing here, after a check of every object, and pins it. */
  fetch(params: { readonly run: string; readonly signal?: AbortSignal }): Promise<FilesFetch>;
  /** Deletes the run's ref on the remote. Null: it is gone. */
  remove(run: string): Promise<PushRefusal | null>;
  /** Asks no remote. Null: this run has nothing here that could be sent. */
  unpushed(run: string): Promise<UnpushedFiles | null>;
}

export type FilesPush =
  | { readonly kind: "pushed"; readonly snapshots: number }
  | { readonly kind: "same" }
  | { readonly kind: "refused"; readonly refusal: PushRefusal }
  /** Nothing was sent. */
  | { readonly kind: "secrets"; readonly found: readonly FoundInFiles[] };

export type FilesFetch =
  | { readonly kind: "fetched"; readonly snapshots: number }
  | { readonly kind: "same" }
  /** The remote has no files of this run. */
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly refusal: PushRefusal };

export interface FoundInFiles {
  /** The path of a file, or the kind and id of another object. */
  readonly path: string;
  readonly line: number;
  readonly kind: string;
}

export interface UnpushedFiles {
  readonly remote: string;
  /** Snapshots and commits of the run that the remote lacks, as far as this machine knows. */
  readonly snapshots: number;
  /** Why the last try failed; null: it did not, or there was none. */
  readonly problem: string | null;
}

export interface PackedObjects {
  readonly format: "sha1" | "sha256";
  readonly refs: readonly { readonly ref: string; readonly id: string }[];
  /** Commits that the receiver must have. */
  readonly prerequisites: readonly string[];
  readonly pack: Uint8Array;
}

export interface ObjectText {
  /** The path of a file, or the kind and id of another object. */
  readonly where: string;
  readonly text: string;
}

export interface DescribedCommit {
  readonly commit: string;
  readonly message: string;
  /** The runs whose pinned commits contain it and whose first checkpoint did not. */
  readonly heldBy: readonly string[];
  /** Full names of the local and remote-tracking branches that contain it. */
  readonly branches: readonly string[];
}

export interface CreateWorkspace {
  readonly run: string;
  /**
   * Path of the worktree. Default: `<parent of the main worktree>/<repo name>-worktrees/<run>`, or in a bare repository
   * `<repo>/trees/<run>`.
   */
  readonly path?: string;
  /** Default `holdfast/<run>`. */
  readonly branch?: string;
  /** Commit-ish to start from; default the current HEAD. */
  readonly base?: string;
}

export interface WorktreeInfo {
  readonly path: string;
  /** The run that it was made for, as its own worktree or as a side worktree; null: none. */
  readonly run: string | null;
  readonly sideWorktree: boolean;
  readonly branch: string | null;
  readonly head: string | null;
  readonly exists: boolean;
}

export interface SnapshotRef {
  readonly ref: string;
  readonly run: string;
  readonly sequence: number;
  readonly snapshot: string;
  /** HEAD when it was taken; null in a repository without commits. */
  readonly head: string | null;
  readonly createdAt: string;
}

export interface Workspace {
  readonly root: string;
  /** A directory for Holdfast's own files about this worktree, in its git directory. It can be deleted at any time. */
  readonly privateDirectory: string;
  /** Those of the paths, relative to the root, that git does not ignore: it tracks them, or would add them. */
  notIgnored(paths: readonly string[]): Promise<readonly string[]>;
  /**
   * Keeps these paths, relative to the root, out of every later snapshot and commit, even if git tracks them or no longer ignores them. A
   * commit that an agent makes with one of them stops the push. Durable when it returns.
   */
  keepOut(paths: readonly string[]): Promise<void>;
  /** Durable when it returns: objects, refs and their directories are synced. Pins `refs/holdfast/<run>/<sequence>`, and HEAD. */
  snapshot(params: SnapshotParams): Promise<FilesPlane>;
  /** A snapshot without a ref and without a sync. It is for planning only; git's own gc collects it after a while. */
  look(params: Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored">): Promise<PreviewSnapshot>;
  /** What `snapshot` would contain and leave out, without pinning; for detecting changes. */
  currentFiles(params?: Pick<SnapshotParams, "maxUntrackedBytes" | "includeIgnored">): Promise<CurrentFiles>;
  /**
   * Plans a restore and changes nothing. `from` is a snapshot of the current worktree. TREE_MISSING (data: the snapshot) when an object that
   * the restore would read is missing or damaged; the rest of the target is not checked.
   */
  planRestore(params: {
    readonly from: PreviewSnapshot;
    readonly to: PreviewSnapshot;
    readonly paths?: readonly string[];
  }): Promise<RestorePlan>;
  /**
   * Makes the files equal to the plan's target. Idempotent: after a kill half-way, the same call on a new plan completes it.
   * RESTORE_REFUSED, and nothing changed, when the worktree differs from the plan's start or another git operation is in progress. The same
   * when an ignored or skipped file or a nested repository is in the way.
   */
  applyRestore(plan: RestorePlan): Promise<RestoreResult>;
  /**
   * Makes the worktree refer to its repository and HEAD to this branch again. The files do not change, nor does the index unless commits
   * are dropped. Returns whether anything had to change.
   * It abandons a git operation in progress (a rebase, a merge). Use it only for worktrees of runs, after the process that began the
   * operation has ended.
   */
  switchTo(params: BranchTarget): Promise<boolean>;
  /**
   * Stages what the index of a snapshot has, in a worktree that was created again. The files do not change. False, and nothing is staged, when
   * a part of it is not in this repository or is in conflict, or when HEAD is another commit than in the snapshot.
   */
  stage(files: Pick<FilesPlane, "index" | "head">): Promise<boolean>;
}

export interface BranchTarget {
  /** Full name. Recreated at `head` when it is gone. */
  readonly branch: string;
  readonly head: string;
  /** What to do with commits on the branch since `head`. */
  readonly commits: "keep" | "drop";
}

export type CurrentFiles = Pick<FilesPlane, "tree" | "skipped" | "nested">;

export type PreviewSnapshot = Omit<FilesPlane, "ref">;

export interface SnapshotParams {
  readonly run: string;
  readonly sequence: number;
  readonly message: string;
  /** Date of the snapshot, ISO 8601: an argument, so that the same snapshot has the same id. */
  readonly at: string;
  /** Larger untracked files are skipped and named. Default 20 MiB. */
  readonly maxUntrackedBytes?: number;
  readonly includeIgnored?: boolean;
  readonly base?: string;
}

/** What a run has in a repository. */
export interface WorktreeContent {
  readonly path: string;
  readonly exists: boolean;
  /** Only git's entry is left: the directory was removed. */
  readonly isGone: boolean;
  /** Its path is used by a worktree that is not proven to be this one, for example of the repository that this one is a copy of. */
  readonly isForeign: boolean;
  /** Its files are not all written yet. */
  readonly unfinished: boolean;
  /** Ignored files and directories; a directory ends with a slash, and its content is not listed. */
  readonly ignored: readonly string[];
  /** Submodules and other nested repositories. */
  readonly nested: readonly string[];
  /** Files whose staged content is neither in HEAD nor in the file. */
  readonly staged: readonly string[];
  /** Refs that only this worktree has (refs/worktree/). */
  readonly refs: readonly string[];
  /** The commit of a detached HEAD. */
  readonly detached: string | null;
  readonly operation: string | null;
  readonly locked: boolean;
}

/** Throws if a worktree that is being removed has something that would be lost. It is not in its place. */
export type WorktreeCheck = (moved: Workspace, content: WorktreeContent) => Promise<void>;

export interface InspectRun {
  readonly run: string;
  readonly branch: string | null;
  readonly head: string | null;
  /** Full name of the branch outside holdfast/ that the run created. */
  readonly created?: string | null;
  /** Commits that results of its steps name. With the run's trailer, the run made them: those of older checkpoints it replaced itself. */
  readonly made?: ReadonlySet<string>;
  /** Checkpoints whose uncommitted files nothing else may have, newest first. */
  readonly saved?: readonly SavedFiles[];
}

export interface SavedFiles {
  readonly id: CheckpointId;
  readonly tree: string;
  readonly head: string | null;
}

export interface RunRemains {
  readonly worktree: string | null;
  /** A folder in the place of its worktree that does not lead to this repository, for example to the original of a copy. It stays. */
  readonly unlinked: string | null;
  readonly sideWorktrees: readonly string[];
  /** Its own branch, holdfast/<run>. It stays if it is checked out in a worktree of the user: `checkedOutAt`. */
  readonly branch: { readonly name: string; readonly tip: string; readonly checkedOutAt: string | null } | null;
  /** Another branch that its worktree was on, for example one that a workflow named. It stays. */
  readonly otherBranch: string | null;
  /** Remote-tracking branches without commits of others. They are removed with the branch. */
  readonly copies: readonly { readonly ref: string; readonly tip: string }[];
  /** Remote-tracking branches with commits of others. They stay. */
  readonly keptCopies: readonly string[];
  readonly refs: readonly string[];
  readonly losses: RunLosses;
  readonly locked: boolean;
}

/** What exists nowhere else. Of commits, at most 100 each: those that no other branch has, here or on a remote. */
export interface RunLosses {
  /** Uncommitted files of its worktrees. */
  readonly files: readonly string[];
  /** What git ignores in its worktree; a directory ends with a slash. */
  readonly ignored: readonly string[];
  readonly operation: string | null;
  /** Commits of its branch. */
  readonly branch: readonly string[];
  /** Commits of the worktree's detached HEAD that its branch does not have. */
  readonly detached: readonly string[];
  /**
   * Commits that only refs of its checkpoints have, for example because its branch was deleted or reset. Without those that the run made
   * and replaced itself, and those whose change its branch has in another commit.
   */
  readonly pinned: readonly string[];
  /** Uncommitted files that only its checkpoints have, as CHECKPOINT:PATH. */
  readonly saved: readonly string[];
}

export type FileChange =
  | { readonly kind: "write"; readonly path: GitPath; readonly mode: string }
  | { readonly kind: "create"; readonly path: GitPath; readonly mode: string }
  | { readonly kind: "remove"; readonly path: GitPath }
  /** The same file under another spelling, on a file system that ignores case or Unicode form. Its content may change too. */
  | { readonly kind: "respell"; readonly path: GitPath; readonly from: GitPath }
  | { readonly kind: "mode"; readonly path: GitPath; readonly mode: string };

export interface RestorePlan {
  readonly root: string;
  readonly fromTree: string;
  /** Tree of the snapshot that is restored. */
  readonly targetTree: string;
  /** Tree of the worktree afterwards (for a per-path restore, `from` with those paths replaced). */
  readonly toTree: string;
  readonly paths: readonly string[] | null;
  readonly changes: readonly FileChange[];
  /**
   * Paths that the restore leaves alone although they differ from the target. They are skipped files, nested repositories, files outside of
   * a sparse checkout, and files that the target's own ignore rules cover. (Those may have existed, ignored, when it was taken.)
   */
  readonly untouched: readonly Untouched[];
  /**
   * Ignored or skipped files that a write would overwrite, and git repositories that a file would be written into. If not empty,
   * applyRestore refuses.
   */
  readonly blocked: readonly GitPath[];
  /** Files that are ignored now and that the target's ignore rules do not cover: they remain, and the next snapshot contains them. */
  readonly exposed: readonly GitPath[];
  /** How `from` was captured; the current files are compared with it in the same way. Absent: the defaults. */
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
  /** "counts": one line per file, in the order of `files`: lines added, a tab, lines removed (`-` and `-`: binary), a tab, the name. */
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
 * Side worktrees of a run, in which agents work in parallel without seeing each other's half-done work. Each is on no branch, so an agent's
 * commits there move nothing of the user's. Nothing outside of refs/holdfast/ and the side worktree's own folder is touched.
 */
export interface SideWorktrees {
  /** Makes a commit of these files on top of their head, pinned under refs/holdfast/<run>/side/<commit>. Durable when it returns. */
  commit(params: { readonly run: string; readonly files: PreviewSnapshot; readonly at: string }): Promise<string>;
  /** Pins a commit in the same namespace. The name contains the commit, so a second call finds it made. Durable when it returns. */
  pin(params: { readonly run: string; readonly commit: string }): Promise<string>;
  /** The folder that `place` uses. */
  rootOf(params: SideWorktreeName): string;
  /**
   * Returns the side worktree with the files of `commit`, on its head. It is created if missing, left alone if it is already right, and
   * otherwise recreated. (Its content is pinned first; ignored files are lost.) After a kill half-way, the same call completes it.
   * TREE_MISSING when the commit does not exist here.
   */
  place(params: SideWorktreeName & { readonly commit: string; readonly base: string }): Promise<Workspace>;
  /** The side worktree as it is; undefined when it is missing or incomplete. */
  find(params: SideWorktreeName): Promise<Workspace | undefined>;
  /** The side worktrees of this run, or of all runs; a folder may be gone. */
  list(run?: string): Promise<readonly SideWorktreeInfo[]>;
  /** Removes it. Its content is pinned first, unless it equals `holding`. A missing one is not an error. */
  remove(params: { readonly run: string; readonly key: string; readonly holding?: string }): Promise<void>;
  /** Every remaining ref that `commit` and `pin` made. */
  refs(): Promise<readonly SideWorktreeRef[]>;
  /**
   * Applies the changes from `base` to `theirs` on top of `ours`, in git objects only. It follows renames file by file and ignores the
   * repository's merge drivers and attributes. `to` can be restored to; it is not pinned.
   */
  merge(params: {
    readonly base: string;
    readonly ours: PreviewSnapshot;
    readonly theirs: string;
  }): Promise<SideWorktreeMerge>;
  /** Tree of a commit. TREE_MISSING when it does not exist here. */
  treeOf(commit: string): Promise<string>;
}

export interface SideWorktreeName {
  readonly run: string;
  /** Name of the step; any text. */
  readonly name: string;
  /** The folder next to which it lies, as `<beside>.sideWorktree/`; default: where the run's own worktree would be. */
  readonly beside?: string;
}

export interface SideWorktreeInfo {
  readonly run: string;
  /** The key made from the name. */
  readonly key: string;
  readonly path: string;
  readonly exists: boolean;
}

export interface SideWorktreeRef {
  readonly ref: string;
  readonly run: string;
  readonly commit: string;
  readonly createdAt: string;
}

export type SideWorktreeMerge =
  | { readonly kind: "merged"; readonly to: PreviewSnapshot }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

/** Makes a key that is safe in a path for any name, and differs for different names. */
export function sideWorktreeKey(name: string): string {
  const words = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 32)
    .replace(/-+$/, "");
  const digest = sha256(name).slice(0, 10);
  return words === "" ? digest : `${words}-${digest}`;
}

/**
 * The repository's main worktree, where users and other tools look for files, and which outlives the worktrees of runs. In a bare
 * repository, the first worktree that belongs to no run; without one, or without a repository, `cwd`.
 */
export async function mainWorktreeRoot(workspaces: Pick<Workspaces, "list"> | null, cwd: string): Promise<string> {
  const worktrees = (await workspaces?.list()) ?? [];
  return worktrees.find(({ exists, run }) => exists && run === null)?.path ?? cwd;
}

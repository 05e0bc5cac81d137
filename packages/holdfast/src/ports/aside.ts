import type { GitPath } from "../core/checkpoint/checkpoint.ts";
import type { Look, Workspace } from "./workspace.ts";

/**
 * Worktrees beside a run's own, in which agents work at the same time without seeing each other's half work. Each stands on no branch, so
 * whatever an agent commits there moves nothing of the user's. Nothing outside of refs/holdfast/ and the aside's own folder is touched.
 */
export interface Asides {
  /**
   * These files as a commit of their own on top of the head that they were seen on, pinned under refs/holdfast/<run>/aside/<commit>. Durable when it returns.
   */
  base(params: { readonly run: string; readonly files: Look; readonly at: string }): Promise<string>;
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
  merge(params: { readonly base: string; readonly ours: Look; readonly theirs: string }): Promise<AsideMerge>;
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
  /** As core/position/aside.ts makes it of the name. */
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
  | { readonly kind: "merged"; readonly to: Look }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

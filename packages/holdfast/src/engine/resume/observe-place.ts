import type { Checkpoint, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Finding } from "../../core/resume/finding.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { SinceCheckpoint } from "../../core/journal/since-checkpoint.ts";
import type { Look, Workspaces } from "../../ports/workspace.ts";
import { lookParams } from "../parts.ts";
import { findRunWorkspace } from "../save/run-workspace.ts";
import type { WorkParts } from "../work-parts.ts";

export interface Place {
  readonly findings: readonly Finding[];
  /** Of the run's branch as it is now, or as the checkpoint has it when it is gone; null without files or commits. */
  readonly head: string | null;
  /** Full name of the run's branch. */
  readonly branch: string | null;
  /** The run's worktree; null when it is gone. */
  readonly root: string | null;
}

const NOWHERE: Place = { findings: [], head: null, branch: null, root: null };

/** The run's worktree, its branch and its files. */
export async function observePlace(params: {
  readonly parts: WorkParts;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly since: SinceCheckpoint;
}): Promise<Place> {
  const { parts, run, checkpoint, since } = params;
  const { files } = checkpoint.planes;
  const { workspaces } = parts;
  if (files === null || workspaces === null) return NOWHERE;
  const [whole, workspace] = await Promise.all([workspaces.has(files), findRunWorkspace(parts, run)]);
  const tip = files.branch === null ? files.head : await workspaces.branchTip(files.branch);
  const findings: Finding[] = whole ? [] : [treeMissing(checkpoint, files)];
  const branchGone = files.branch !== null && files.head !== null && tip === null;
  if (branchGone) findings.push(branchMissing(files));
  const place = { head: tip ?? files.head, branch: files.branch, root: workspace?.root ?? null };
  if (workspace === undefined) {
    if (!branchGone) findings.push(...headMoved({ files, tip, since }));
    return { ...place, findings: [...findings, worktreeMissing(files)] };
  }
  const look = await workspace.look(lookParams(parts));
  if (workspace.root !== files.worktree) findings.push(worktreeMoved(files, workspace.root));
  // A step in flight is undone with the branch that it left.
  if (!since.changesFiles) findings.push(...branchSwitched(files, look));
  if (!branchGone) findings.push(...headMoved({ files, tip: files.branch === null ? look.head : tip, since }));
  // After a half restore, or in the middle of a step that writes files, they are not what somebody wanted them to be.
  const halfWork = since.changesFiles || run.unfinishedRestore !== null;
  if (whole && !halfWork && look.tree !== files.tree)
    findings.push(await filesChanged(workspaces, checkpoint, files, look));
  return { ...place, findings };
}

function headMoved(params: {
  readonly files: FilesPlane;
  readonly tip: string | null;
  readonly since: SinceCheckpoint;
}): readonly Finding[] {
  const { files, tip, since } = params;
  if (tip === files.head || tip === null || since.changesFiles || since.commits.has(tip)) return [];
  const summary = `${shortName(files.branch)} stands at ${tip}, and the run left it at ${files.head ?? "no commit"}`;
  return [{ kind: "head_moved", summary, expected: files.head, actual: tip }];
}

function branchSwitched(files: FilesPlane, look: Look): readonly Finding[] {
  if (files.branch === null || look.branch === files.branch) return [];
  const summary = `The worktree stands on ${shortName(look.branch)} instead of ${shortName(files.branch)} (\`git -C ${look.worktree} switch ${shortName(files.branch)}\` brings it back)`;
  return [{ kind: "branch_switched", summary, expected: files.branch, actual: look.branch }];
}

function branchMissing(files: FilesPlane): Finding {
  const summary = `The branch ${shortName(files.branch)} is gone`;
  return { kind: "branch_missing", summary, expected: { branch: files.branch, head: files.head }, actual: null };
}

function worktreeMissing(files: FilesPlane): Finding {
  const summary = `The worktree ${files.worktree} is gone`;
  return { kind: "worktree_missing", summary, expected: files.worktree, actual: null };
}

function worktreeMoved(files: FilesPlane, root: string): Finding {
  const summary = `The worktree is at ${root} and was at ${files.worktree}`;
  return { kind: "worktree_moved", summary, expected: files.worktree, actual: root };
}

function treeMissing(checkpoint: Checkpoint, files: FilesPlane): Finding {
  const summary = `The git objects of checkpoint ${checkpoint.id} are not in this repository`;
  return { kind: "tree_missing", summary, expected: files.commit, actual: null };
}

const NAMED = 5;

async function filesChanged(
  workspaces: Workspaces,
  checkpoint: Checkpoint,
  files: FilesPlane,
  look: Look,
): Promise<Finding> {
  const between = { from: files.tree, to: look.tree };
  const { files: changed } = await workspaces.diff({ ...between, format: "names" });
  // One that is too large to be held must not stand in the way of a resume.
  const patch = await workspaces.diff({ ...between, format: "patch" }).catch(() => null);
  const names = changed.slice(0, NAMED).map(({ path }) => path);
  const more = changed.length > NAMED ? ` and ${changed.length - NAMED} more` : "";
  const summary = `Files are not as checkpoint ${checkpoint.id} has them: ${names.join(", ")}${more}`;
  const diff = patch === null ? {} : { diff: shortened(patch.text) };
  return { kind: "files_changed", summary, expected: files.tree, actual: look.tree, ...diff };
}

/** Enough to see what somebody did; `holdfast diff` shows all of it. */
function shortened(patch: string): string {
  const lines = patch.trimEnd().split("\n");
  const left = lines.length - SHOWN;
  return left > 0 ? [...lines.slice(0, SHOWN), `… and ${left} more lines`].join("\n") : lines.join("\n");
}

const SHOWN = 60;

function shortName(branch: string | null): string {
  return branch === null ? "no branch" : branch.replace(/^refs\/heads\//, "");
}

import type { Checkpoint, CheckpointSummary, GitPath } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { choosePaths } from "../../core/graft/choose-paths.ts";
import { leavesRoot } from "../../core/graft/leaves-root.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Look, RestorePlan, Workspace, Workspaces } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";
import { lookParams } from "../parts.ts";
import { refuseBusy } from "../restore/worktree-busy.ts";

/** Files of a checkpoint of one run to be put into the worktree of another. */
export interface GraftPlan {
  /** The run that gets them. */
  readonly run: string;
  readonly source: CheckpointSummary;
  /** As they were asked for, from the root: names and patterns. */
  readonly asked: readonly string[];
  readonly files: RestorePlan;
  /** Files that it would write over and that are not as the newest checkpoint has them. */
  readonly edited: readonly GitPath[];
  /** Links among the files that lead out of the worktree. */
  readonly outward: readonly { readonly path: GitPath; readonly target: string }[];
  /** What was there before, of this same graft when it began and did not finish. */
  readonly begun: CheckpointSummary | null;
}

/** Looks only, and holds on to nothing. */
export async function planGraft(params: {
  readonly parts: Parts;
  readonly source: Checkpoint;
  readonly run: RunSummary;
  /** With what the run did since. */
  readonly newest: Checkpoint | undefined;
  readonly workspace: Workspace | undefined;
  readonly paths: readonly string[];
}): Promise<GraftPlan> {
  const { parts, source, run, newest, workspace, paths: asked } = params;
  const { workspaces } = parts;
  const to = source.planes.files;
  if (source.quarantined) throw refused(`Checkpoint ${source.id} was set aside as damaged`, "Choose another one.");
  if (to === null)
    throw refused(`Checkpoint ${source.id} holds no files`, "Choose one that was taken in a git worktree.");
  if (workspace === undefined || workspaces === null || newest === undefined)
    throw refused(
      `Run ${run.id} has no worktree that files could be put into`,
      "Save one there with `holdfast checkpoint`.",
    );
  refuseHalfStep(newest);
  const begun = await findBegun(parts, { run, source, asked });
  const from = await workspace.look(lookParams(parts));
  refuseBusy(workspace.root, from, "graft");
  const names = new Set([...(await workspaces.filesOf(to.tree)), ...(await workspaces.filesOf(from.tree))]);
  const paths = choosePaths(asked, [...names]);
  const files = await workspace.planRestore({ from, to, paths });
  const saved = (begun === null ? newest : await parts.store.getCheckpoint(begun)).planes.files?.tree ?? from.tree;
  return {
    run: run.id,
    source: summaryOf(source),
    asked,
    files,
    edited: await findEdited(workspaces, { saved, from, files }),
    outward: await findOutward(workspaces, { from, to: to.tree, files }),
    begun,
  };
}

/**
 * Half of a step's work goes back to where the step began when the run is taken up, and a graft would go with it. An agent that goes on with its
 * session keeps its files, and so the graft.
 */
function refuseHalfStep({ run, planes }: Checkpoint): void {
  const { running = {}, sessions = {} } = planes.position.visit;
  const half = Object.entries(running).find(([name, step]) => step.files && !Object.hasOwn(sessions, name));
  if (half === undefined) return;
  const [name, { base }] = half;
  throw refused(
    `Run ${run} stopped in the middle of ${name}, and resuming it puts back the files from before that`,
    `Put them back now (what is there is saved first): holdfast restore ${run}@${base}. Then graft again.`,
  );
}

/** Of an unfinished restore of another kind the files are half of something that we do not know. */
async function findBegun(
  { store }: Parts,
  params: { readonly run: RunSummary; readonly source: Checkpoint; readonly asked: readonly string[] },
): Promise<CheckpointSummary | null> {
  const { id, unfinishedRestore: target } = params.run;
  if (target === null) return null;
  const sequence = Number(target.slice(target.lastIndexOf("@") + 1));
  const [before] = await store.listCheckpoints({ run: id, before: sequence + 1, limit: 1 });
  if (before?.sequence === sequence) {
    // The entry that announced it stands in the same commit as the checkpoint, before it.
    for await (const { kind, body } of store.readJournal({ run: id, after: before.entry - 2, limit: 1 })) {
      const graft = kind === "restore.started" ? body["graft"] : undefined;
      if (typeof graft !== "string") continue;
      const same = graft === params.source.id && JSON.stringify(body["paths"]) === JSON.stringify(params.asked);
      if (same) return before;
      throw refused(
        `Another graft into ${id} began and did not finish: from ${graft}`,
        `Run that one again, or go back to before it: holdfast restore ${target}`,
      );
    }
  }
  throw refused(`A restore of ${target} began and did not finish`, `Finish it first: holdfast restore ${target}`);
}

/** What is as it was saved, or already as it shall be, is nobody's edit. */
async function findEdited(
  workspaces: Workspaces,
  { saved, from, files }: { readonly saved: string; readonly from: Look; readonly files: RestorePlan },
): Promise<readonly GitPath[]> {
  if (saved === from.tree || files.changes.length === 0) return [];
  const diff = await workspaces.diff({ from: saved, to: from.tree, format: "names" });
  const touched = new Set(diff.files.flatMap(({ path, from: old }) => (old === null ? [path] : [path, old])));
  return files.changes.map(({ path }) => path).filter((path) => touched.has(path));
}

async function findOutward(
  workspaces: Workspaces,
  { from, to, files }: { readonly from: Look; readonly to: string; readonly files: RestorePlan },
): Promise<GraftPlan["outward"]> {
  const outward: { readonly path: GitPath; readonly target: string }[] = [];
  for (const change of files.changes) {
    if (!("mode" in change) || change.mode !== LINK) continue;
    const { path } = change;
    const { text } = await workspaces.diff({ from: from.tree, to, paths: [path], format: "patch" });
    const target = text
      .split("\n")
      .filter((line) => line.startsWith("+") && !line.startsWith("+++ "))
      .map((line) => line.slice(1))
      .join("\n");
    if (leavesRoot(path, target)) outward.push({ path, target });
  }
  return outward;
}

const LINK = "120000";

function summaryOf(checkpoint: Checkpoint): CheckpointSummary {
  const { planes: _planes, ...summary } = checkpoint;
  return summary;
}

function refused(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "RESTORE_REFUSED", message, hint });
}

// Side worktrees of a stage: opening, entering, merging and removing them, in a way that a crash can interrupt anywhere.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { snapshotParams } from "./adapters.ts";
import { type Json, isJsonArray, isJsonObject } from "./json.ts";
import { reasonOf } from "./progress.ts";
import { revertUnexpectedFiles, whilePlacingFiles } from "./restore-files.ts";
import type { RunSession } from "./run-session.ts";
import { type OpenSideWorktree, type StageExecution, beginStep, failStep } from "./step.ts";
import { rebaseRunning } from "./state.ts";
import type { SideWorktree, SideWorktreeMerged } from "./workflow.ts";
import {
  type SideWorktreeClosed,
  type SideWorktreeOpened,
  openSideWorktrees,
  sideWorktreeTip,
} from "./side-worktree-steps.ts";
import {
  type PreviewSnapshot,
  type RestorePlan,
  type SideWorktrees,
  type Workspace,
  sideWorktreeKey,
} from "./workspace.ts";

/**
 * Opens a side worktree. Its base is pinned and recorded before the folder is made, so a process after a kill makes the same one. The
 * folder is made only from recorded data, so it can be recreated at any time.
 */
export async function openSideWorktree(execution: StageExecution, name: string): Promise<SideWorktree> {
  const { runSession } = execution;
  const { adapters, run } = runSession;
  const sideWorktrees = requireSideWorktrees(runSession, name);
  const known = execution.claim(name);
  return await execution.busy(async () => {
    // Never runs during a merge. A known result is the SideWorktreeOpened that `recordBase` recorded.
    const record = (): Promise<SideWorktreeOpened> =>
      execution.inTurn(() => recordBase(execution, sideWorktrees, name));
    const { base, skipped } = known === undefined ? await record() : (known as SideWorktreeOpened);
    const commit = sideWorktreeTip(Object.entries(runSession.attempt.steps), { name, base });
    const place = placeOf(runSession, name);
    // A closed side worktree is requested only because the stage runs again. One keeps its files if a call in it resumes its session, or
    // had ended.
    const isOpen = openSideWorktrees(Object.entries(runSession.attempt.steps)).has(name);
    const kept = isOpen && keepsFilesIn(runSession, name) ? await sideWorktrees.find(place) : undefined;
    execution.sideWorktrees.set(name, { name, base, commit, isKept: kept !== undefined, busy: null });
    const make = (): Promise<Workspace> => execution.inTurn(() => sideWorktrees.place({ ...place, base, commit }));
    const root = isOpen ? (kept ?? (await make())).root : sideWorktrees.rootOf(place);
    runSession.emit({ kind: "step_finished", step: name, replayed: known !== undefined });
    return { name, root, base, skipped };
  });

  async function recordBase(at: StageExecution, through: SideWorktrees, step: string): Promise<SideWorktreeOpened> {
    const { workspace } = runSession;
    if (workspace === undefined) throw noSideWorktrees(run.id, step);
    await revertUnexpectedFiles(runSession);
    const look = snapshotParams(adapters);
    const files = await workspace.look(look);
    const base = await through.commit({ run: run.id, files, at: look.at });
    at.open();
    const opened: SideWorktreeOpened = { kind: "side-worktree.opened", base, skipped: files.skipped };
    await runSession.append(at.finished(step, { result: opened, spent: null }));
    return opened;
  }
}

function keepsFilesIn({ attempt, answered }: RunSession, name: string): boolean {
  const { sideWorktrees, sessions } = attempt;
  return Object.entries(sideWorktrees).some(
    ([step, sideWorktree]) => sideWorktree === name && (Object.hasOwn(sessions, step) || answered.has(step)),
  );
}

/** Prepares the side worktree for one call: as the previous call left it, or as this call left it when its session resumes. */
export async function enterSideWorktree(
  execution: StageExecution,
  open: OpenSideWorktree,
  params: { readonly continues: boolean },
): Promise<Workspace> {
  const sideWorktrees = requireSideWorktrees(execution.runSession, open.name);
  const place = placeOf(execution.runSession, open.name);
  const there = params.continues ? await sideWorktrees.find(place) : undefined;
  return (
    there ?? (await execution.inTurn(() => sideWorktrees.place({ ...place, base: open.base, commit: open.commit })))
  );
}

/** Drops a side worktree: its folder is removed, and its content remains pinned. */
export async function dropSideWorktree(execution: StageExecution, sideWorktree: SideWorktree): Promise<void> {
  const { runSession } = execution;
  const open = requireOpen(execution, sideWorktree);
  const step = dropStep(sideWorktree);
  const known = execution.claim(step);
  await execution.busy(async () => {
    if (known === undefined) {
      const closed: SideWorktreeClosed = { kind: "side-worktree.closed", sideWorktree: sideWorktree.name };
      await runSession.append(execution.finished(step, { result: closed, spent: null }));
    }
    await removeFolder(execution, open);
  });
}

/** Extends the side worktree's name, so that both belong to the same owner, such as a graph node. */
export function dropStep({ name }: Pick<SideWorktree, "name">): string {
  return `${name}/drop`;
}

/**
 * Removes the folder of a closed side worktree. If that fails now, the end of the stage or the next resume removes it, so it is not an
 * error.
 */
async function removeFolder(execution: StageExecution, open: OpenSideWorktree): Promise<void> {
  const { runSession } = execution;
  const { name } = open;
  const params = { run: runSession.run.id, key: sideWorktreeKey(name), holding: open.commit };
  try {
    await execution.inTurn(() => requireSideWorktrees(runSession, name).remove(params));
  } catch (error) {
    runSession.emit({ kind: "note", text: `The side worktree ${name} could not be removed yet: ${reasonOf(error)}` });
  }
}

export function requireOpen(execution: StageExecution, sideWorktree: Pick<SideWorktree, "name">): OpenSideWorktree {
  const open = execution.sideWorktrees.get(sideWorktree.name);
  if (open === undefined) {
    throw usageError(
      `Stage ${execution.stage} uses the side worktree ${JSON.stringify(sideWorktree.name)} without having created it`,
      "Create it with `context.sideWorktree()` in the same stage first.",
    );
  }
  if (open.busy === null) return open;
  throw usageError(
    `The side worktree ${JSON.stringify(sideWorktree.name)} is in use by ${open.busy}`,
    "Wait for one call before the next uses the same side worktree; parallel calls need one each.",
  );
}

export function requireSideWorktrees({ adapters, run }: RunSession, step: string): SideWorktrees {
  if (adapters.workspaces === null) throw noSideWorktrees(run.id, step);
  return adapters.workspaces.sideWorktrees;
}

function placeOf(
  { adapters, run }: RunSession,
  name: string,
): { readonly run: string; readonly name: string; readonly beside?: string } {
  const { worktreePath } = adapters;
  return { run: run.id, name, ...(worktreePath === undefined ? {} : { beside: worktreePath(run.id) }) };
}

function noSideWorktrees(run: string, step: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `Step ${step} of run ${run} needs a side worktree, and the run has no worktree`,
    hint: "Begin the run with a worktree.",
  });
}

/**
 * Removes side worktrees that the current stage attempt does not hold open: those of an ended stage, or from before a rewind. A run that
 * ended holds none.
 */
export async function sweepSideWorktrees(runSession: RunSession, params: { readonly ended: boolean }): Promise<void> {
  const { workspaces } = runSession.adapters;
  if (workspaces === null) return;
  try {
    const kept = new Set(
      params.ended ? [] : [...openSideWorktrees(Object.entries(runSession.attempt.steps))].map(sideWorktreeKey),
    );
    for (const { run, key } of await workspaces.sideWorktrees.list(runSession.run.id))
      if (!kept.has(key)) await workspaces.sideWorktrees.remove({ run, key });
  } catch (error) {
    runSession.emit({
      kind: "note",
      text: `Side worktrees of ${runSession.run.id} could not be removed yet: ${reasonOf(error)}`,
    });
  }
}

/**
 * Merges a side worktree. The merge is computed in git objects first, so a conflict changes nothing. Placing the result is a step that
 * changes files: after a kill in the middle, the files are restored to its start and it runs again.
 */
export async function mergeSideWorktree(
  execution: StageExecution,
  name: string,
  { sideWorktree, commit }: { readonly sideWorktree: SideWorktree; readonly commit: string },
): Promise<SideWorktreeMerged> {
  const { runSession } = execution;
  const open = requireOpen(execution, sideWorktree);
  const known = execution.claim(name);
  return await execution.busy(async () => {
    const merged = known === undefined ? await execution.inTurn(merge) : parseMerged(known);
    if (known !== undefined) runSession.emit({ kind: "step_finished", step: name, replayed: true });
    if (merged.kind === "merged") await removeFolder(execution, open);
    return merged;
  });

  async function merge(): Promise<SideWorktreeMerged> {
    const workspace = requireQuiet(execution, name);
    const sideWorktrees = requireSideWorktrees(runSession, name);
    await revertUnexpectedFiles(runSession);
    const ours = await workspace.look(snapshotParams(runSession.adapters));
    const found = await sideWorktrees.merge({ base: open.base, ours, theirs: commit });
    if (found.kind === "conflict")
      return await conclude({ kind: "conflict", files: found.files, detail: found.detail });
    const plan = await workspace.planRestore({ from: ours, to: found.to });
    const inTheWay = obstaclesOf(plan, found.to);
    if (inTheWay !== null) return await conclude(inTheWay);
    const files = plan.changes.map(({ path }) => path);
    if (files.length === 0) return await conclude({ kind: "merged", files });
    return await place({ kind: "merged", files }, workspace, plan);
  }

  /** Records a result that does not change the files. */
  async function conclude(merged: SideWorktreeMerged): Promise<SideWorktreeMerged> {
    execution.open();
    const result = recordOf(merged, sideWorktree.name);
    await runSession.append(execution.finished(name, { result, spent: null }));
    runSession.emit({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }

  async function place(
    merged: SideWorktreeMerged,
    workspace: Workspace,
    plan: RestorePlan,
  ): Promise<SideWorktreeMerged> {
    await beginStep(execution, name, { files: true, estimate: null });
    try {
      await whilePlacingFiles(runSession, () => workspace.applyRestore(plan));
    } catch (error) {
      throw await failStep(execution, name, error);
    }
    execution.open();
    const result = recordOf(merged, sideWorktree.name);
    await runSession.save({
      trigger: "automatic",
      name,
      prepare: () => [execution.finished(name, { result, spent: null })],
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
    });
    runSession.emit({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }
}

/** Files that another step changes now would be taken for the merge's, or be restored with it. */
function requireQuiet({ runSession }: StageExecution, step: string): Workspace {
  const { workspace, run } = runSession;
  const { running } = runSession.attempt;
  const others = Object.entries(running)
    .filter(([, { files }]) => files)
    .map(([name]) => name);
  if (workspace !== undefined && others.length === 0) return workspace;
  throw new HoldfastError({
    code: workspace === undefined ? "WORKSPACE_MISSING" : "USAGE",
    message:
      workspace === undefined
        ? `Step ${step} of run ${run.id} merges a side worktree, and the run has no worktree to merge into`
        : `Step ${step} merges a side worktree while ${others.join(", ")} changes the run's files`,
    hint: "Merge side worktrees when nothing works in the run's own worktree.",
  });
}

/** Obstacles are a conflict too: a path that no snapshot contains is in the way, or would have to change. */
function obstaclesOf(plan: RestorePlan, to: PreviewSnapshot): SideWorktreeMerged | null {
  if (plan.blocked.length > 0) {
    const detail = `Files that are ignored or too large for snapshots stand in the way:\n${plan.blocked.join("\n")}`;
    return { kind: "conflict", files: plan.blocked, detail };
  }
  if (plan.toTree === to.tree) return null;
  const left = plan.untouched.filter(({ reason }) => LEFT.has(reason));
  const detail = left.map(({ path, reason }) => `${path} cannot be changed (${reason.replace("_", " ")})`).join("\n");
  return { kind: "conflict", files: left.map(({ path }) => path), detail };
}

const LEFT: ReadonlySet<string> = new Set(["nested_repository", "sparse", "ignored"]);

function recordOf(merged: SideWorktreeMerged, sideWorktree: string): Json {
  if (merged.kind === "conflict") return merged;
  const closed: SideWorktreeClosed & { readonly files: readonly string[] } = {
    kind: "side-worktree.closed",
    sideWorktree,
    files: merged.files,
  };
  return closed;
}

/** Parses a result that `recordOf` made. */
function parseMerged(known: Json): SideWorktreeMerged {
  const { kind, files, detail } = isJsonObject(known) ? known : {};
  const paths = isJsonArray(files) ? files.filter((path) => typeof path === "string") : [];
  return kind === "conflict"
    ? { kind, files: paths, detail: typeof detail === "string" ? detail : "" }
    : { kind: "merged", files: paths };
}

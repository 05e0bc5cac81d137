// Side worktrees of a stage: opening, entering, merging and removing them, in a way that a crash can interrupt anywhere.

import { HoldfastError } from "@holdfast/platform/error";
import { snapshotParams } from "./adapters.ts";
import { type Json, isJsonArray, isJsonObject } from "./json.ts";
import { reasonOf } from "./progress.ts";
import { revertUnexpectedFiles, whilePlacingFiles } from "./restore-files.ts";
import type { RunSession } from "./run-session.ts";
import type { OpenAside, StageExecution } from "./stage-execution.ts";
import { rebaseRunning } from "./state.ts";
import { beginStep, failStep } from "./step.ts";
import type { Aside, AsideMerged } from "./workflow.ts";
import {
  type AsideClosed,
  type AsideOpened,
  type Asides,
  type PreviewSnapshot,
  type RestorePlan,
  type Workspace,
  asideKey,
  asideTip,
  openAsides,
} from "./workspace.ts";

/**
 * Opens a side worktree. Its base is pinned and recorded before the folder is made, so a process after a kill makes the same one. The
 * folder is made only from recorded data, so it can be recreated at any time.
 */
export async function openAside(stay: StageExecution, name: string): Promise<Aside> {
  const { writer } = stay;
  const { parts, run } = writer;
  const asides = requireAsides(writer, name);
  const known = stay.claim(name);
  return await stay.busy(async () => {
    // Never runs during a merge. A known result is the AsideOpened that `recordBase` recorded.
    const record = (): Promise<AsideOpened> => stay.inTurn(() => recordBase(stay, asides, name));
    const { base, skipped } = known === undefined ? await record() : (known as AsideOpened);
    const commit = asideTip(Object.entries(writer.steps), { name, base });
    const place = placeOf(writer, name);
    // A closed side worktree is requested only because the stage runs again. One keeps its files if a call in it resumes its session, or
    // had ended.
    const isOpen = openAsides(Object.entries(writer.steps)).has(name);
    const kept = isOpen && keepsFilesIn(writer, name) ? await asides.find(place) : undefined;
    stay.asides.set(name, { name, base, commit, isKept: kept !== undefined, busy: null });
    const make = (): Promise<Workspace> => stay.inTurn(() => asides.place({ ...place, base, commit }));
    const root = isOpen ? (kept ?? (await make())).root : asides.rootOf(place);
    writer.tell({ kind: "step_finished", step: name, replayed: known !== undefined });
    return { name, root, base, skipped };
  });

  async function recordBase(at: StageExecution, through: Asides, step: string): Promise<AsideOpened> {
    const { workspace } = writer;
    if (workspace === undefined) throw noAsides(run.id, step);
    await revertUnexpectedFiles(writer);
    const look = snapshotParams(parts);
    const files = await workspace.look(look);
    const base = await through.base({ run: run.id, files, at: look.at });
    at.open();
    const opened: AsideOpened = { kind: "aside.opened", base, skipped: files.skipped };
    await writer.append(at.finished(step, { result: opened, spent: null }));
    return opened;
  }
}

function keepsFilesIn({ asides, sessions, answered }: RunSession, name: string): boolean {
  return Object.entries(asides).some(
    ([step, aside]) => aside === name && (Object.hasOwn(sessions, step) || answered.has(step)),
  );
}

/** Prepares the side worktree for one call: as the previous call left it, or as this call left it when its session resumes. */
export async function enterAside(
  stay: StageExecution,
  open: OpenAside,
  params: { readonly goesOn: boolean },
): Promise<Workspace> {
  const asides = requireAsides(stay.writer, open.name);
  const place = placeOf(stay.writer, open.name);
  const there = params.goesOn ? await asides.find(place) : undefined;
  return there ?? (await stay.inTurn(() => asides.place({ ...place, base: open.base, commit: open.commit })));
}

/** Drops a side worktree: its folder is removed, and its content remains pinned. */
export async function dropAside(stay: StageExecution, aside: Aside): Promise<void> {
  const { writer } = stay;
  const open = requireOpen(stay, aside);
  const step = dropStep(aside);
  const known = stay.claim(step);
  await stay.busy(async () => {
    if (known === undefined) {
      const closed: AsideClosed = { kind: "aside.closed", aside: aside.name };
      await writer.append(stay.finished(step, { result: closed, spent: null }));
    }
    await removeFolder(stay, open);
  });
}

/** Extends the side worktree's name, so that both belong to the same owner, such as a graph node. */
export function dropStep({ name }: Pick<Aside, "name">): string {
  return `${name}/drop`;
}

/**
 * Removes the folder of a closed side worktree. If that fails now, the end of the stage or the next resume removes it, so it is not an
 * error.
 */
async function removeFolder(stay: StageExecution, open: OpenAside): Promise<void> {
  const { writer } = stay;
  const { name } = open;
  const params = { run: writer.run.id, key: asideKey(name), holding: open.commit };
  try {
    await stay.inTurn(() => requireAsides(writer, name).remove(params));
  } catch (error) {
    writer.tell({ kind: "note", text: `The aside ${name} could not be removed yet: ${reasonOf(error)}` });
  }
}

export function requireOpen(stay: StageExecution, aside: Pick<Aside, "name">): OpenAside {
  const open = stay.asides.get(aside.name);
  if (open === undefined) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Stage ${stay.stage} uses the aside ${JSON.stringify(aside.name)} without having asked for it`,
      hint: "Ask for it with context.aside in the same stage first.",
    });
  }
  if (open.busy === null) return open;
  throw new HoldfastError({
    code: "USAGE",
    message: `The aside ${JSON.stringify(aside.name)} is in use by ${open.busy}`,
    hint: "Wait for one call before the next uses the same aside; work at the same time needs an aside each.",
  });
}

export function requireAsides({ parts, run }: RunSession, step: string): Asides {
  if (parts.workspaces === null) throw noAsides(run.id, step);
  return parts.workspaces.asides;
}

function placeOf(
  { parts, run }: RunSession,
  name: string,
): { readonly run: string; readonly name: string; readonly beside?: string } {
  const { worktreePath } = parts;
  return { run: run.id, name, ...(worktreePath === undefined ? {} : { beside: worktreePath(run.id) }) };
}

function noAsides(run: string, step: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `Step ${step} of run ${run} works aside, and the run has no worktree to work beside`,
    hint: "Begin the run with a worktree.",
  });
}

/**
 * Removes side worktrees that the current stage attempt does not hold open: those of an ended stage, or from before a rewind. A run that
 * ended holds none.
 */
export async function sweepAsides(writer: RunSession, params: { readonly ended: boolean }): Promise<void> {
  const { workspaces } = writer.parts;
  if (workspaces === null) return;
  try {
    const kept = new Set(params.ended ? [] : [...openAsides(Object.entries(writer.steps))].map(asideKey));
    for (const { run, key } of await workspaces.asides.list(writer.run.id))
      if (!kept.has(key)) await workspaces.asides.remove({ run, key });
  } catch (error) {
    writer.tell({ kind: "note", text: `Asides of ${writer.run.id} could not be removed yet: ${reasonOf(error)}` });
  }
}

/**
 * Merges a side worktree. The merge is computed in git objects first, so a conflict changes nothing. Placing the result is a step that
 * changes files: after a kill in the middle, the files are restored to its start and it runs again.
 */
export async function mergeAside(
  stay: StageExecution,
  name: string,
  { aside, commit }: { readonly aside: Aside; readonly commit: string },
): Promise<AsideMerged> {
  const { writer } = stay;
  const open = requireOpen(stay, aside);
  const known = stay.claim(name);
  return await stay.busy(async () => {
    const merged = known === undefined ? await stay.inTurn(merge) : parseMerged(known);
    if (known !== undefined) writer.tell({ kind: "step_finished", step: name, replayed: true });
    if (merged.kind === "merged") await removeFolder(stay, open);
    return merged;
  });

  async function merge(): Promise<AsideMerged> {
    const workspace = requireQuiet(stay, name);
    const asides = requireAsides(writer, name);
    await revertUnexpectedFiles(writer);
    const ours = await workspace.look(snapshotParams(writer.parts));
    const found = await asides.merge({ base: open.base, ours, theirs: commit });
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
  async function conclude(merged: AsideMerged): Promise<AsideMerged> {
    stay.open();
    const result = recordOf(merged, aside.name);
    await writer.append(stay.finished(name, { result, spent: null }));
    writer.tell({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }

  async function place(merged: AsideMerged, workspace: Workspace, plan: RestorePlan): Promise<AsideMerged> {
    await beginStep(stay, name, { files: true, estimate: null });
    try {
      await whilePlacingFiles(writer, () => workspace.applyRestore(plan));
    } catch (error) {
      throw await failStep(stay, name, error);
    }
    stay.open();
    const result = recordOf(merged, aside.name);
    await writer.save({
      trigger: "automatic",
      name,
      prepare: () => [stay.finished(name, { result, spent: null })],
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
    });
    writer.tell({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }
}

/** Files that another step changes now would be taken for the merge's, or be restored with it. */
function requireQuiet({ writer }: StageExecution, step: string): Workspace {
  const { workspace, running, run } = writer;
  const others = Object.entries(running)
    .filter(([, { files }]) => files)
    .map(([name]) => name);
  if (workspace !== undefined && others.length === 0) return workspace;
  throw new HoldfastError({
    code: workspace === undefined ? "WORKSPACE_MISSING" : "USAGE",
    message:
      workspace === undefined
        ? `Step ${step} of run ${run.id} merges an aside, and the run has no worktree to merge into`
        : `Step ${step} merges an aside while ${others.join(", ")} changes the run's files`,
    hint: "Merge asides when nothing works in the run's own worktree.",
  });
}

/** Obstacles are a conflict too: a path that no snapshot contains is in the way, or would have to change. */
function obstaclesOf(plan: RestorePlan, to: PreviewSnapshot): AsideMerged | null {
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

function recordOf(merged: AsideMerged, aside: string): Json {
  if (merged.kind === "conflict") return merged;
  const closed: AsideClosed & { readonly files: readonly string[] } = {
    kind: "aside.closed",
    aside,
    files: merged.files,
  };
  return closed;
}

/** Parses a result that `recordOf` made. */
function parseMerged(known: Json): AsideMerged {
  const { kind, files, detail } = isJsonObject(known) ? known : {};
  const paths = isJsonArray(files) ? files.filter((path) => typeof path === "string") : [];
  return kind === "conflict"
    ? { kind, files: paths, detail: typeof detail === "string" ? detail : "" }
    : { kind: "merged", files: paths };
}

import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import { isJsonArray } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { ResumeAction } from "../../core/resume/resume.ts";
import { NEW_RUN, concernsRun, stepRun } from "../../core/journal/run-fold.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workspace, Workspaces } from "../../ports/workspace.ts";
import { lookParams } from "../parts.ts";
import type { Parts } from "../parts.ts";
import { findRunWorkspace } from "../save/run-workspace.ts";

/** Scope of a restore that brings all files and leaves position and values where they are. */
const ALL_FILES: readonly string[] = ["."];

export interface RepairedPlace {
  readonly workspace: Workspace | undefined;
  /** To be written with whatever is committed next. */
  readonly entries: readonly NewEntry[];
  /** A restore that did not finish and that brings more or less than all files. */
  readonly unfinished: { readonly sequence: number; readonly paths: readonly string[] | null } | null;
}

/**
 * The branch and the worktree as the checkpoint has them. Before a worktree is made the journal says so, as a restore that began:
 * killed before its files are all there, the next resume knows that they are nobody's edits. No checkpoint is written
 * here, so a step that was in flight stays one.
 */
export async function repairPlace(params: {
  readonly parts: Parts;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly actions: readonly ResumeAction[];
  readonly lease: Lease;
}): Promise<RepairedPlace> {
  const { parts, run, checkpoint, actions, lease } = params;
  const { workspaces } = parts;
  if (workspaces === null) return { workspace: undefined, entries: [], unfinished: null };
  for (const action of actions) if (action.kind === "recreate_branch") await workspaces.createBranch(action);
  const unfinished = actions.some((one) => one.kind === "finish_restore") ? await readUnfinished(parts, run.id) : null;
  const found = await findRunWorkspace(parts, run);
  const { files } = checkpoint.planes;
  if (files === null) return { workspace: found, entries: [], unfinished };
  const missing = found === undefined && actions.some((one) => one.kind === "recreate_worktree");
  const bringsFiles = unfinished !== null && unfinished.paths?.join() === ALL_FILES.join();
  if (!missing && !bringsFiles) return { workspace: found, entries: [], unfinished };
  const target = bringsFiles
    ? await parts.store.getCheckpoint({ run: run.id, sequence: unfinished.sequence })
    : checkpoint;
  if (unfinished === null) await parts.store.commit({ lease, entries: [started(target)] });
  const workspace = found ?? (await makeWorktree({ parts, workspaces, run, checkpoint }));
  // Another restore that began before puts all files where they belong, and is finished after this.
  if (unfinished !== null && !bringsFiles) return { workspace, entries: [], unfinished };
  const tree = await placeFiles({ parts, workspaces, workspace, target, fresh: false });
  return { workspace, entries: [finished(target, tree)], unfinished: null };
}

/** The files of the target in place of those that are there, which are kept unless nobody can have worked on them. */
export async function placeFiles(params: {
  readonly parts: Parts;
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  readonly target: Checkpoint;
  readonly fresh: boolean;
}): Promise<string> {
  const { parts, workspaces, workspace, target } = params;
  const to = target.planes.files;
  if (to === null) throw new HoldfastError({ code: "INTERNAL", message: `Checkpoint ${target.id} holds no files` });
  const from = await workspace.look(lookParams(parts));
  if (from.tree === to.tree) return to.tree;
  if (!params.fresh) await workspaces.keep({ run: target.run, commit: from.commit });
  return (await workspace.applyRestore(await workspace.planRestore({ from, to }))).tree;
}

export function started(target: Checkpoint): NewEntry {
  return { kind: "restore.started", body: { target: target.id, paths: ALL_FILES } };
}

export function finished(target: Checkpoint, tree: string): NewEntry {
  return { kind: "restore.finished", body: { target: target.id, tree } };
}

async function makeWorktree(params: {
  readonly parts: Parts;
  readonly workspaces: Workspaces;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
}): Promise<Workspace> {
  const { workspaces, run } = params;
  const { files } = params.checkpoint.planes;
  return await workspaces.create({
    run: run.id,
    ...(files === null ? {} : { path: files.worktree }),
    ...(files === null || files.branch === null ? {} : { branch: files.branch.replace(/^refs\/heads\//, "") }),
    ...(files === null || files.head === null ? {} : { base: files.head }),
  });
}

/** What the restore was to bring stands only in its own entry, which a checkpoint may follow. */
async function readUnfinished(parts: Parts, run: string): Promise<RepairedPlace["unfinished"]> {
  let fold = NEW_RUN;
  for await (const entry of parts.store.readJournal({ run })) if (concernsRun(entry.kind)) fold = stepRun(fold, entry);
  return fold.unfinishedRestore === null ? null : parseStarted(fold.unfinishedRestore.body, run);
}

function parseStarted(body: JsonObject, run: string): NonNullable<RepairedPlace["unfinished"]> {
  const { target, paths } = body;
  const sequence = typeof target === "string" ? Number(target.slice(target.lastIndexOf("@") + 1)) : Number.NaN;
  if (!Number.isSafeInteger(sequence)) {
    throw new HoldfastError({
      code: "STORE_CORRUPT",
      message: `The journal of run ${run} tells of a restore of ${JSON.stringify(target)}, which is no checkpoint`,
      hint: "Run `holdfast verify` to see what is damaged.",
    });
  }
  return { sequence, paths: isJsonArray(paths) ? paths.filter((path) => typeof path === "string") : null };
}

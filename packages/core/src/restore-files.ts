// Restores the files of a run's own worktree: after half-done steps, unexpected changes, a lost branch or a missing worktree.

import { HoldfastError, describeList } from "@holdfast/platform/error";
import { type CoreAdapters, findRunWorkspace, lostWorktreePath, snapshotParams } from "./adapters.ts";
import { forgetResult } from "./agent-log.ts";
import type { Checkpoint, FilesPlane } from "./checkpoint.ts";
import type { NewEntry } from "./journal.ts";
import { type JsonObject, isJsonArray } from "./json.ts";
import type { Lease } from "./lease.ts";
import type { Position } from "./position.ts";
import type { ResumeAction } from "./resume-plan.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import type { RunSummary } from "./run.ts";
import { onlyReaders, sameFiles } from "./state.ts";
import { NEW_RUN, RUN_KINDS, stepRun } from "./status.ts";
import type { Workspace, Workspaces } from "./workspace.ts";

interface PutBack {
  /** The run of the checkpoint `to`; absent: this run. */
  readonly from?: string;
  readonly to: number;
  readonly trigger: "error_recovery" | "before_restore";
  readonly why: string;
  readonly finish: (tree: string | null) => readonly NewEntry[];
}

/**
 * Restores the files of a checkpoint; the position does not change. The current files are saved first, so nothing is lost.
 * After a kill in between, the journal shows an unfinished restore of files, and the same call completes it.
 * `finish` returns the entries of the commit that ends the restore. Returns the tree.
 */
export async function restoreRunFiles(runSession: RunSession, params: PutBack): Promise<string | null> {
  const { workspace, adapters, run } = runSession;
  const target = await adapters.store.getCheckpoint({ run: params.from ?? run.id, sequence: params.to });
  const to = target.planes.files;
  if (workspace === undefined || to === null) {
    await appendAll(runSession, params.finish(null));
    return null;
  }
  return await whilePlacingFiles(runSession, () => putBack(runSession, params, { workspace, target, to }));
}

async function putBack(
  runSession: RunSession,
  params: PutBack,
  { workspace, target, to }: { readonly workspace: Workspace; readonly target: Checkpoint; readonly to: FilesPlane },
): Promise<string> {
  const from = await workspace.look(snapshotParams(runSession.adapters));
  if (from.tree === to.tree) {
    // The process was killed after the files were restored and before that was recorded. The newest checkpoint still holds the discarded
    // files, and the next step must not start from them.
    if (runSession.state.files !== null && sameFiles(from, runSession.state.files)) {
      const { sequence, settled } = runSession.state;
      const settles: readonly NewEntry[] =
        settled.sequence === sequence ? [] : [{ kind: "files.settled", body: { sequence } }];
      await appendAll(runSession, [...settles, ...params.finish(to.tree)]);
    } else
      await runSession.save({
        trigger: "restore",
        name: `files of ${target.id}`,
        settles: true,
        prepare: () => params.finish(to.tree),
      });
    return to.tree;
  }
  const plan = await workspace.planRestore({ from, to });
  await runSession.save({
    trigger: params.trigger,
    name: params.why,
    prepare: ({ files }) => {
      if (files?.tree !== plan.fromTree) throw moved(workspace.root);
      return [started(target)];
    },
  });
  const { tree } = await workspace.applyRestore(plan);
  await runSession.save({
    trigger: "restore",
    name: `files of ${target.id}`,
    settles: true,
    prepare: () => [finished(target, tree), ...params.finish(tree)],
  });
  return tree;
}

/** An append of nothing would be a commit. */
export async function appendAll(runSession: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await runSession.append(...entries);
}

function moved(root: string): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Files in ${root} changed while they were to be put back`,
    hint: "Stop what is writing there, then resume the run; nothing was changed.",
    retry: "later",
  });
}

/**
 * Agents are instructed to keep the run's branch checked out, and do not always do so. Wherever an agent has moved, the run continues on
 * its own branch with the current files, and its next commit contains them. `before`: the files of the last checkpoint before the call.
 */
export async function keepBranch(runSession: RunSession, step: string, before: FilesPlane | null): Promise<void> {
  const { workspace } = runSession;
  if (workspace === undefined) return;
  const note = await switchBack(workspace, step, before);
  if (runSession.halt.cause === undefined) await checkPlace(runSession, workspace.root, step);
  if (note !== null) await emitNote(runSession, note);
}

/** Returns what to report; null: nothing had to change. */
export async function switchBack(
  workspace: Workspace,
  step: string,
  before: FilesPlane | null,
): Promise<string | null> {
  const own = ownBranch(before);
  if (own === null || !(await workspace.switchTo({ ...own, commits: "keep" }))) return null;
  return `${step} left the branch ${shortName(own.branch)} or its repository; both are as they were, the files are kept`;
}

/** An agent can remove its own working directory. Its work there is lost, and nothing else. */
async function checkPlace(runSession: RunSession, root: string, step: string): Promise<void> {
  const { adapters, run } = runSession;
  const trees = (await adapters.workspaces?.list()) ?? [];
  if (trees.some(({ path, exists }) => exists && path === root)) return;
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `The worktree ${root} is gone: it was removed while ${step} worked in it`,
    hint: `\`holdfast resume ${run.id}\` makes it again with the files of ${run.id}@${runSession.state.sequence} and repeats the step.`,
    data: { run: run.id, step },
  });
}

/** The state of the files when a call began: the newest checkpoint, and the run's own work on them. */
export interface BeganAt {
  readonly files: FilesPlane | null;
  readonly fileSteps: number;
  readonly alone: boolean;
}

export function beganAt({ state, attempt, fileSteps }: RunSession): BeganAt {
  return { files: state.files, fileSteps, alone: !Object.values(attempt.running).some((step) => step.files) };
}

/**
 * Runs after a call that must not change the run's own worktree: it only reads, or it works in a side worktree. No gate and no review saw
 * such changes, and they would be committed as the work of another call. So they are saved and then reverted, commits included, if no other
 * step of this run changed files since. Newer checkpoints are no evidence, since the user may request one at any time.
 */
export async function revertChanges(runSession: RunSession, began: BeganAt): Promise<void> {
  if (began.alone && runSession.fileSteps === began.fileSteps) await revertUnexpectedFiles(runSession);
}

/** Reverts such changes while these calls are in flight, before other work builds on the files. */
export async function revertUnexpectedFiles(runSession: RunSession): Promise<void> {
  const { workspace, adapters } = runSession;
  const { running } = runSession.attempt;
  const { settled } = runSession.state;
  const { files } = settled;
  if (workspace === undefined || files === null || !onlyReaders(runSession.state)) return;
  const now = await workspace.look(snapshotParams(adapters));
  if (sameFiles(now, files)) return;
  const paths = (await workspace.planRestore({ from: now, to: files })).changes.map(({ path }) => path);
  const who = Object.keys(running).join(", ");
  await runSession.save({ trigger: "error_recovery", name: changedBy(who) });
  const saved = `${runSession.run.id}@${runSession.state.sequence}`;
  const own = ownBranch(files);
  if (own !== null) await workspace.switchTo({ ...own, commits: "drop" });
  const text = `The run's worktree was changed while only ${who} worked, which may only read it: ${describeChanged(paths)}. It is saved as ${saved}`;
  const before = runSession.state.sequence;
  try {
    // The note is in the commit that ends the restore, so a kill after it does not lose the note.
    const finish = () => [{ kind: "note", body: { text: `${text}, and undone` } } as const];
    await restoreRunFiles(runSession, { to: settled.sequence, trigger: "error_recovery", why: changedBy(who), finish });
    runSession.emit({ kind: "note", text: `${text}, and undone` });
  } catch (error) {
    // Another process keeps writing there and the restore has not begun. Paid work must not be repeated for that; the next check tries
    // again.
    if (!(error instanceof HoldfastError) || error.code !== "RESTORE_REFUSED" || runSession.state.sequence !== before)
      throw error;
    await emitNote(runSession, `${text}; it is still being written, and is kept for now`);
  }
}

const NAME_CHARACTERS = 200;

function changedBy(who: string): string {
  return `what was changed while ${who} worked`.slice(0, NAME_CHARACTERS).toWellFormed();
}

/** Without a changed file, the branch moved. */
export function describeChanged(paths: readonly string[]): string {
  return paths.length === 0 ? "commits" : describeList(paths, 10);
}

function ownBranch(files: FilesPlane | null): { readonly branch: string; readonly head: string } | null {
  if (files === null || files.branch === null || files.head === null) return null;
  return { branch: files.branch, head: files.head };
}

function shortName(branch: string): string {
  return branch.replace(/^refs\/heads\//, "");
}

/**
 * Prevents requested checkpoints while the engine places files. It starts before the first checkpoint of that work: earlier requests are
 * ahead in the queue, and later ones are refused.
 */
export async function whilePlacingFiles<T>(runSession: RunSession, work: () => Promise<T>): Promise<T> {
  runSession.placing += 1;
  try {
    await runSession.quiet();
    return await work();
  } finally {
    runSession.placing -= 1;
  }
}

/** Scope of a restore of all files that leaves position and values as they are. */
export const ALL_FILES: readonly string[] = ["."];

interface RepairedPlace {
  readonly workspace: Workspace | undefined;
  /** Entries to write with the next commit. */
  readonly entries: readonly NewEntry[];
  /** An unfinished restore whose scope is not exactly all files. */
  readonly unfinished: {
    readonly run: string;
    readonly sequence: number;
    readonly paths: readonly string[] | null;
    /** The user asked for the files; otherwise the engine placed them before it continued. */
    readonly asked: boolean;
  } | null;
}

/**
 * Recreates the branch and the worktree of the checkpoint. Before it creates a worktree, it writes the start of a restore to the journal.
 * After a kill the next resume then knows that missing files are not the user's edits. It writes no checkpoint, so a step in flight remains
 * in flight.
 */
export async function repairWorktree(params: {
  readonly adapters: CoreAdapters;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly actions: readonly ResumeAction[];
  readonly lease: Lease;
}): Promise<RepairedPlace> {
  const { adapters, run, checkpoint, actions, lease } = params;
  const { workspaces } = adapters;
  if (workspaces === null) return { workspace: undefined, entries: [], unfinished: null };
  for (const action of actions) if (action.kind === "recreate_branch") await workspaces.createBranch(action);
  const unfinished = actions.some((one) => one.kind === "finish_restore")
    ? await readUnfinished(adapters, run.id)
    : null;
  const found = await findRunWorkspace(adapters, run);
  const { files } = checkpoint.planes;
  if (files === null) return { workspace: found, entries: [], unfinished };
  const missing = found === undefined && actions.some((one) => one.kind === "recreate_worktree");
  const bringsFiles = unfinished !== null && !unfinished.asked && unfinished.paths?.join() === ALL_FILES.join();
  const refreshes = actions.some((one) => one.kind === "refresh_worktree");
  if (!missing && !refreshes && !bringsFiles) return { workspace: found, entries: [], unfinished };
  const target = bringsFiles ? await adapters.store.getCheckpoint(unfinished) : checkpoint;
  if (unfinished === null) await adapters.store.commit({ lease, entries: [started(target)] });
  const workspace = found ?? (await makeWorktree({ adapters, workspaces, run, checkpoint }));
  if (refreshes) await moveBranch({ adapters, workspaces, workspace, run: run.id, files });
  // An earlier unfinished restore places all files and is finished after this.
  if (unfinished !== null && !bringsFiles) return { workspace, entries: [], unfinished };
  const tree = await placeFiles({ adapters, workspaces, workspace, run: run.id, target, fresh: false });
  if (found === undefined || refreshes) await stageAgain(workspace, target);
  return { workspace, entries: [finished(target, tree)], unfinished: null };
}

/** Moves the run's branch to the commit of the checkpoint. What the worktree has is kept under a ref first, with the commits below. */
async function moveBranch(params: {
  readonly adapters: CoreAdapters;
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  readonly run: string;
  readonly files: FilesPlane;
}): Promise<void> {
  const { adapters, workspaces, workspace, run, files } = params;
  const { snapshot } = await workspace.look(snapshotParams(adapters));
  await workspaces.keep({ run, commit: snapshot });
  const own = ownBranch(files);
  if (own !== null) await workspace.switchTo({ ...own, commits: "drop" });
}

/**
 * Replaces the current files by those of the target. The current files are kept under a ref, unless `fresh` is set: then a checkpoint
 * already contains them.
 */
export async function placeFiles(params: {
  readonly adapters: CoreAdapters;
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  /** The run whose files are replaced. */
  readonly run: string;
  readonly target: Checkpoint;
  readonly fresh: boolean;
}): Promise<string> {
  const { adapters, workspaces, workspace, target } = params;
  const to = target.planes.files;
  if (to === null) throw new HoldfastError({ code: "INTERNAL", message: `Checkpoint ${target.id} holds no files` });
  const from = await workspace.look(snapshotParams(adapters));
  if (from.tree === to.tree) return to.tree;
  if (!params.fresh) await workspaces.keep({ run: params.run, commit: from.snapshot });
  return (await workspace.applyRestore(await workspace.planRestore({ from, to }))).tree;
}

export function started(target: Checkpoint): NewEntry {
  return { kind: "restore.started", body: { target: target.id, paths: ALL_FILES } };
}

export function finished(target: Checkpoint, tree: string): NewEntry {
  return { kind: "restore.finished", body: { target: target.id, tree } };
}

/**
 * Creates the run's worktree again, with the files of its newest checkpoint. Announced as a restore, so that after a kill missing files do
 * not look like edits; the same call then completes it.
 */
export async function rebuildWorktree(params: {
  readonly adapters: CoreAdapters;
  readonly workspaces: Workspaces;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly lease: Lease;
}): Promise<Workspace> {
  const { adapters, workspaces, run, checkpoint, lease } = params;
  const { files } = checkpoint.planes;
  if (files !== null && !(await workspaces.has(files)))
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `The git objects of checkpoint ${checkpoint.id} are not in this repository`,
      hint: `If another machine took it, run \`holdfast store fetch ${run.id}\`. Otherwise \`holdfast verify\` shows which checkpoints are whole.`,
    });
  await adapters.store.commit({ lease, entries: [started(checkpoint)] });
  const workspace = await makeWorktree(params);
  const tree = await placeFiles({ adapters, workspaces, workspace, run: run.id, target: checkpoint, fresh: false });
  await stageAgain(workspace, checkpoint);
  await adapters.store.commit({ lease, entries: [finished(checkpoint, tree)] });
  return workspace;
}

/** A new worktree has nothing staged. Staged changes whose objects are gone remain unstaged ones: their files are there. */
async function stageAgain(workspace: Workspace, { planes }: Checkpoint): Promise<void> {
  if (planes.files !== null) await workspace.stage(planes.files);
}

async function makeWorktree(params: {
  readonly adapters: CoreAdapters;
  readonly workspaces: Workspaces;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
}): Promise<Workspace> {
  const { adapters, workspaces, run } = params;
  const { files } = params.checkpoint.planes;
  return await workspaces.create({
    run: run.id,
    path: await lostWorktreePath(adapters, run.id),
    ...(files === null || files.branch === null ? {} : { branch: files.branch.replace(/^refs\/heads\//, "") }),
    ...(files === null || files.head === null ? {} : { base: files.head }),
  });
}

/**
 * Runs before files of unfinished calls are replaced. After a kill in between, the next resume calls the agent again instead of adopting a
 * result without its files.
 */
export function forgetResults({ logs }: Pick<CoreAdapters, "logs">, run: string, { stageAttempt }: Position): void {
  const { number, running = {} } = stageAttempt;
  for (const [step, { files }] of Object.entries(running))
    if (files) forgetResult(logs.result({ run, stageAttempt: number, step }));
}

/** Only the restore's own entry contains its scope, and checkpoints may follow that entry. */
async function readUnfinished(adapters: CoreAdapters, run: string): Promise<RepairedPlace["unfinished"]> {
  let fold = NEW_RUN;
  for await (const entry of adapters.store.readJournal({ run }))
    if (RUN_KINDS.has(entry.kind)) fold = stepRun(fold, entry);
  return fold.unfinishedRestore === null ? null : parseStarted(fold.unfinishedRestore.body, run);
}

function parseStarted(body: JsonObject, run: string): NonNullable<RepairedPlace["unfinished"]> {
  const { target, paths, only } = body;
  const [, of, number] = typeof target === "string" ? (/^(.+)@(\d+)$/.exec(target) ?? []) : [];
  if (of === undefined) {
    throw new HoldfastError({
      code: "STORE_CORRUPT",
      message: `The journal of run ${run} names a restore of ${JSON.stringify(target)}, which is not a checkpoint`,
      hint: "Run `holdfast verify` to see what is damaged.",
    });
  }
  const names = isJsonArray(paths) ? paths.filter((path) => typeof path === "string") : null;
  return { run: of, sequence: Number(number), paths: names, asked: only === "files" };
}

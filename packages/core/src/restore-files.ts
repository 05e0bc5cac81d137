import { HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, findRunWorkspace, snapshotParams } from "./adapters.ts";
import type { Checkpoint, FilesPlane } from "./checkpoint.ts";
import type { NewEntry } from "./journal.ts";
import { type JsonObject, isJsonArray } from "./json.ts";
import type { Lease } from "./lease.ts";
import type { ResumeAction } from "./resume-plan.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import type { RunSummary } from "./run.ts";
import { onlyReaders, sameFiles } from "./state.ts";
import { NEW_RUN, concernsRun, stepRun } from "./status.ts";
import type { Workspace, Workspaces } from "./workspace.ts";

interface PutBack {
  readonly to: number;
  readonly trigger: "error_recovery" | "before_restore";
  readonly why: string;
  readonly finish: (tree: string | null) => readonly NewEntry[];
}

/**
 * Makes the files what they are in a checkpoint of this run; the position stays. What is there now is saved first, so
 * nothing is lost. Killed in between, the journal shows a restore of files that began, and the same call again completes it.
 * `finish` returns the entries of the commit that says that the files are back. Returns the tree.
 */
export async function restoreRunFiles(writer: RunSession, params: PutBack): Promise<string | null> {
  const { workspace, parts, run } = writer;
  const target = await parts.store.getCheckpoint({ run: run.id, sequence: params.to });
  const to = target.planes.files;
  if (workspace === undefined || to === null) {
    await appendAll(writer, params.finish(null));
    return null;
  }
  return await whilePlacingFiles(writer, () => putBack(writer, params, { workspace, target, to }));
}

async function putBack(
  writer: RunSession,
  params: PutBack,
  { workspace, target, to }: { readonly workspace: Workspace; readonly target: Checkpoint; readonly to: FilesPlane },
): Promise<string> {
  const from = await workspace.look(snapshotParams(writer.parts));
  if (from.tree === to.tree) {
    // Killed when they were back, and nobody had written it down: the newest checkpoint holds what was taken away, and the next step must not begin from that.
    if (writer.files !== null && sameFiles(from, writer.files)) {
      const { sequence, settled } = writer.state;
      const settles: readonly NewEntry[] =
        settled.sequence === sequence ? [] : [{ kind: "files.settled", body: { sequence } }];
      await appendAll(writer, [...settles, ...params.finish(to.tree)]);
    } else
      await writer.save({
        trigger: "restore",
        name: `files of ${target.id}`,
        settles: true,
        prepare: () => params.finish(to.tree),
      });
    return to.tree;
  }
  const plan = await workspace.planRestore({ from, to });
  await writer.save({
    trigger: params.trigger,
    name: params.why,
    prepare: ({ files }) => {
      if (files?.tree !== plan.fromTree) throw moved(workspace.root);
      return [started(target)];
    },
  });
  const { tree } = await workspace.applyRestore(plan);
  await writer.save({
    trigger: "restore",
    name: `files of ${target.id}`,
    settles: true,
    prepare: () => [finished(target, tree), ...params.finish(tree)],
  });
  return tree;
}

async function appendAll(writer: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await writer.append(...entries);
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
 * Agents are told to stay on the run's branch, and do not always. Wherever one has gone, the run goes on on its own branch with
 * the files as they are: its next commit holds them. `before`: as the last checkpoint before the call has them.
 */
export async function keepBranch(writer: RunSession, step: string, before: FilesPlane | null): Promise<void> {
  const { workspace } = writer;
  const own = ownBranch(before);
  if (workspace === undefined || own === null) return;
  const righted = await workspace.standOn({ ...own, commits: "keep" });
  if (writer.halt.cause === undefined) await checkPlace(writer, workspace.root, step);
  if (!righted) return;
  await emitNote(
    writer,
    `${step} left the branch ${shortName(own.branch)} or its repository; both are as they were, the files are kept`,
  );
}

/** An agent can remove the very directory that it works in; what it did there is gone with it, and nothing else is. */
async function checkPlace(writer: RunSession, root: string, step: string): Promise<void> {
  const { parts, run } = writer;
  const trees = (await parts.workspaces?.list()) ?? [];
  if (trees.some(({ path, exists }) => exists && path === root)) return;
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `The worktree ${root} is gone: it was removed while ${step} worked in it`,
    hint: `\`holdfast resume ${run.id}\` makes it again with the files of ${run.id}@${writer.sequence} and repeats the step.`,
    data: { run: run.id, step },
  });
}

/** Where the files stood when a call began: by the newest checkpoint, and by what of ours was at work on them. */
export interface BeganAt {
  readonly files: FilesPlane | null;
  readonly fileSteps: number;
  readonly alone: boolean;
}

export function beganAt({ files, fileSteps, running }: RunSession): BeganAt {
  return { files, fileSteps, alone: !Object.values(running).some((step) => step.files) };
}

/**
 * After a call that is to change nothing in the run's own worktree: it only looks, or it works aside. What came about there all the same was seen by no gate
 * and no review, and would be committed as the work of somebody else. So it is saved and then taken back, commits included: where nothing of ours changed
 * files since it began. Newer checkpoints say nothing of that, anybody may ask for one.
 */
export async function revertChanges(writer: RunSession, began: BeganAt): Promise<void> {
  if (began.alone && writer.fileSteps === began.fileSteps) await revertUnexpectedFiles(writer);
}

/** The same while such calls are under way, before their files are built on. */
export async function revertUnexpectedFiles(writer: RunSession): Promise<void> {
  const { workspace, running, parts } = writer;
  const { settled } = writer.state;
  const { files } = settled;
  if (workspace === undefined || files === null || parts.player !== undefined || !onlyReaders(writer.state)) return;
  const now = await workspace.look(snapshotParams(parts));
  if (sameFiles(now, files)) return;
  const paths = (await workspace.planRestore({ from: now, to: files })).changes.map(({ path }) => path);
  const who = Object.keys(running).join(", ");
  await writer.save({ trigger: "error_recovery", name: changedBy(who) });
  const saved = `${writer.run.id}@${writer.sequence}`;
  const own = ownBranch(files);
  if (own !== null) await workspace.standOn({ ...own, commits: "drop" });
  const text = `The run's own worktree was changed while only ${who} worked, who were to change nothing there: ${named(paths)}. It is saved as ${saved}`;
  const before = writer.sequence;
  try {
    // Told in the commit that says that it is done: killed behind that, it is known all the same.
    const finish = () => [{ kind: "note", body: { text: `${text}, and taken back` } } as const];
    await restoreRunFiles(writer, { to: settled.sequence, trigger: "error_recovery", why: changedBy(who), finish });
    writer.tell({ kind: "note", text: `${text}, and taken back` });
  } catch (error) {
    // Something keeps writing there and nothing was begun: no reason to do paid work again. The next look tries again.
    if (!(error instanceof HoldfastError) || error.code !== "RESTORE_REFUSED" || writer.sequence !== before)
      throw error;
    await emitNote(writer, `${text}; it is still being written, and is kept for now`);
  }
}

const NAME_CHARACTERS = 200;

function changedBy(who: string): string {
  return `what was changed while ${who} worked`.slice(0, NAME_CHARACTERS).toWellFormed();
}

const NAMED = 10;

function named(paths: readonly string[]): string {
  if (paths.length === 0) return "commits";
  const more = paths.length > NAMED ? ` and ${paths.length - NAMED} more` : "";
  return `${paths.slice(0, NAMED).join(", ")}${more}`;
}

function ownBranch(files: FilesPlane | null): { readonly branch: string; readonly head: string } | null {
  if (files === null || files.branch === null || files.head === null) return null;
  return { branch: files.branch, head: files.head };
}

function shortName(branch: string): string {
  return branch.replace(/^refs\/heads\//, "");
}

/**
 * No checkpoint that others ask for while files are put in place by us. Begun before the checkpoint that such work takes first: what was asked for until then
 * stands in the queue before it, and what is asked for later is refused.
 */
export async function whilePlacingFiles<T>(writer: RunSession, work: () => Promise<T>): Promise<T> {
  writer.placing += 1;
  try {
    await writer.quiet();
    return await work();
  } finally {
    writer.placing -= 1;
  }
}

/** Scope of a restore that brings all files and leaves position and values where they are. */
const ALL_FILES: readonly string[] = ["."];

interface RepairedPlace {
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
export async function repairWorktree(params: {
  readonly parts: CoreAdapters;
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
  readonly parts: CoreAdapters;
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  readonly target: Checkpoint;
  readonly fresh: boolean;
}): Promise<string> {
  const { parts, workspaces, workspace, target } = params;
  const to = target.planes.files;
  if (to === null) throw new HoldfastError({ code: "INTERNAL", message: `Checkpoint ${target.id} holds no files` });
  const from = await workspace.look(snapshotParams(parts));
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
  readonly parts: CoreAdapters;
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
async function readUnfinished(parts: CoreAdapters, run: string): Promise<RepairedPlace["unfinished"]> {
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

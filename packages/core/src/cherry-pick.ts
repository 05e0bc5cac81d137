// Cherry-pick: copies files from a checkpoint of one run into the worktree of another, as a restore that a crash cannot leave half-done.
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type CoreAdapters, snapshotParams } from "./adapters.ts";
import { type Checkpoint, type CheckpointSummary, type GitPath, type Planes, summaryOf } from "./checkpoint.ts";
import type { Lease } from "./lease.ts";
import { changedSince, orUndoRestore, overwritten, rejectBusy } from "./restore.ts";
import type { RunSummary } from "./run.ts";
import type { Saver } from "./save.ts";
import type { PreviewSnapshot, RestorePlan, Workspace, Workspaces } from "./workspace.ts";

/** A plan to copy files from a checkpoint into the worktree of another run. */
export interface CherryPickPlan {
  /** The run that receives the files. */
  readonly run: string;
  readonly source: CheckpointSummary;
  /** Names and patterns as the user gave them, relative to the root. */
  readonly asked: readonly string[];
  readonly files: RestorePlan;
  /** Files that the cherry-pick would overwrite and that differ from the newest checkpoint. */
  readonly edited: readonly GitPath[];
  /** Symbolic links among the files that point outside the worktree. */
  readonly outward: readonly { readonly path: GitPath; readonly target: string }[];
  /** Checkpoint from before this same cherry-pick, if it started earlier and did not finish. null: it did not start. */
  readonly begun: CheckpointSummary | null;
}

/** Reads only, and takes no lease. */
export async function planCherryPick(params: {
  readonly adapters: CoreAdapters;
  readonly source: Checkpoint;
  readonly run: RunSummary;
  /** The newest checkpoint with the run's later changes. */
  readonly newest: Checkpoint | undefined;
  readonly workspace: Workspace | undefined;
  readonly paths: readonly string[];
}): Promise<CherryPickPlan> {
  const { adapters, source, run, newest, workspace, paths: asked } = params;
  const { workspaces } = adapters;
  const to = source.planes.files;
  if (source.quarantined) throw refused(`Checkpoint ${source.id} is quarantined as damaged`, "Choose another one.");
  if (to === null)
    throw refused(`Checkpoint ${source.id} holds no files`, "Choose one that was taken in a git worktree.");
  if (workspace === undefined || workspaces === null || newest === undefined)
    throw refused(
      `Run ${run.id} has no worktree that files could be put into`,
      "Save one there with `holdfast checkpoint`.",
    );
  refuseHalfStep(newest);
  const begun = await findBegun(adapters, { run, source, asked });
  const from = await workspace.look(snapshotParams(adapters));
  rejectBusy(workspace.root, from, "cherry-pick");
  const names = new Set([...(await workspaces.filesOf(to.tree)), ...(await workspaces.filesOf(from.tree))]);
  const paths = choosePaths(asked, [...names]);
  const files = await workspace.planRestore({ from, to, paths });
  const saved = (begun === null ? newest : await adapters.store.getCheckpoint(begun)).planes.files?.tree ?? from.tree;
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
 * Refuses a run that stopped in the middle of a step. Resuming would restore the files from the step's start and
 * discard the cherry-picked ones. An agent that resumes its session keeps its files, so it is allowed.
 */
function refuseHalfStep({ run, planes }: Checkpoint): void {
  const { running = {}, sessions = {} } = planes.position.stageAttempt;
  const half = Object.entries(running).find(([name, step]) => step.files && !Object.hasOwn(sessions, name));
  if (half === undefined) return;
  const [name, { base }] = half;
  throw refused(
    `Run ${run} stopped in the middle of ${name}, and resuming it puts back the files from before that`,
    `Put them back now (what is there is saved first): holdfast restore ${run}@${base}. Then repeat the command.`,
  );
}

/** Refuses a run with another unfinished restore, because its files are in an unknown intermediate state. */
async function findBegun(
  { store }: CoreAdapters,
  params: { readonly run: RunSummary; readonly source: Checkpoint; readonly asked: readonly string[] },
): Promise<CheckpointSummary | null> {
  const { id, unfinishedRestore: target } = params.run;
  if (target === null) return null;
  const sequence = Number(target.slice(target.lastIndexOf("@") + 1));
  const [before] = await store.listCheckpoints({ run: id, before: sequence + 1, limit: 1 });
  if (before?.sequence === sequence) {
    // The entry that announces the restore is in the same commit as the checkpoint, directly before it.
    for await (const { kind, body } of store.readJournal({ run: id, after: before.entry - 2, limit: 1 })) {
      const cherryPick = kind === "restore.started" ? body["cherryPick"] : undefined;
      if (typeof cherryPick !== "string") continue;
      const same = cherryPick === params.source.id && JSON.stringify(body["paths"]) === JSON.stringify(params.asked);
      if (same) return before;
      throw refused(
        `Another cherry-pick into ${id} did not finish: from ${cherryPick}`,
        `Run that one again, or go back to before it: holdfast restore ${target}`,
      );
    }
  }
  throw refused(`A restore of ${target} began and did not finish`, `Finish it first: holdfast restore ${target}`);
}

/** A file that equals its saved version, or already has the new content, is not the user's edit. */
async function findEdited(
  workspaces: Workspaces,
  { saved, from, files }: { readonly saved: string; readonly from: PreviewSnapshot; readonly files: RestorePlan },
): Promise<readonly GitPath[]> {
  if (saved === from.tree || files.changes.length === 0) return [];
  const diff = await workspaces.diff({ from: saved, to: from.tree, format: "names" });
  const touched = new Set(diff.files.flatMap(({ path, from: old }) => (old === null ? [path] : [path, old])));
  const names = files.changes.flatMap((one) => (one.kind === "respell" ? [one.path, one.from] : [one.path]));
  return [...new Set(names)].filter((path) => touched.has(path));
}

async function findOutward(
  workspaces: Workspaces,
  { from, to, files }: { readonly from: PreviewSnapshot; readonly to: string; readonly files: RestorePlan },
): Promise<CherryPickPlan["outward"]> {
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
    if (isOutsideRoot(path, target)) outward.push({ path, target });
  }
  return outward;
}

const LINK = "120000";

function refused(message: string, hint: string, data: Readonly<Record<string, unknown>> = {}): HoldfastError {
  return new HoldfastError({ code: "RESTORE_REFUSED", message, hint, data });
}

export interface CherryPickReport {
  /** Checkpoint from before the cherry-pick. Restoring it undoes the cherry-pick. */
  readonly undo: CheckpointSummary;
  /** The run's newest checkpoint now. A resume continues from it. */
  readonly checkpoint: CheckpointSummary;
  readonly written: number;
  readonly removed: number;
}

interface CherryPickWork {
  readonly adapters: CoreAdapters;
  readonly plan: CherryPickPlan;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace;
  /** Also overwrites edits that no checkpoint holds (they are saved first), and accepts links that point outside. */
  readonly force: boolean;
}

/**
 * Order: a checkpoint of the current files with "restore.started" in one commit, the files, their verification, then
 * "restore.finished" with a checkpoint in one commit. The journal sees a restore to the checkpoint from before. After a
 * kill a resume goes back there, `restore` of that checkpoint does the same, and repeating the cherry-pick completes
 * it.
 */
export async function applyCherryPick(work: CherryPickWork): Promise<CherryPickReport> {
  const { plan, saver, lease, workspace, adapters } = work;
  refuseLoss(plan, work.force);
  const newest = await saver.newest();
  if (newest === undefined) throw new HoldfastError({ code: "INTERNAL", message: `Run ${plan.run} has no checkpoint` });
  const undo = plan.begun ?? (await saveBefore(work, newest.planes));
  const place = async () => {
    const done = await workspace.applyRestore(plan.files);
    const after = await saver.snapshot(workspace, nameOf(plan));
    if (after.files.tree !== done.tree) throw overwritten(workspace.root, "cherry-pick");
    const checkpoint = await saver.commit({
      lease,
      planes: { ...pickedPlanes(newest.planes, after.sequence), files: after.files },
      params: { trigger: "manual", name: nameOf(plan) },
      entries: [
        { kind: "restore.finished", body: { target: undo.id, tree: done.tree, cherryPick: plan.source.id } },
        {
          kind: "note",
          body: {
            text: `Took ${plan.asked.map(nameAsked).join(", ")} from ${plan.source.id}; ${undo.id} is from before`,
          },
        },
      ],
      sequence: after.sequence,
    });
    return { undo, checkpoint, written: done.written, removed: done.removed };
  };
  if (plan.begun === null) {
    const { changes } = plan.files;
    return await orUndoRestore({ adapters, saver, lease, workspace, undo, changes }, place);
  }
  // A process that died started this cherry-pick. It stays on record as unfinished until all files are in place.
  if (plan.edited.length > 0) await keepEdits(work);
  return await place();
}

/** Checks the plan before anything starts, so that a started cherry-pick is not refused later. */
function refuseLoss({ files, edited, outward, run }: CherryPickPlan, force: boolean): void {
  const [blocked] = files.blocked;
  if (blocked !== undefined)
    throw refused(
      `The cherry-pick is not possible: ${blocked}${more(files.blocked)} is a git repository of its own, or a file that no checkpoint holds`,
      "Move it away first, or take other paths.",
      { blocked: files.blocked },
    );
  const [edit] = edited;
  if (edit !== undefined && !force)
    throw refused(
      `${edit}${more(edited)} in the worktree of ${run} was changed since its newest checkpoint`,
      "Look with --dry-run; --force takes the other version all the same, and saves this one first.",
      { edited },
    );
  const [link] = outward;
  if (link !== undefined && !force)
    throw refused(
      `${link.path}${more(outward)} is a link that leads out of the worktree, to ${link.target}`,
      "A write through the link changes files outside the worktree. --force copies it all the same.",
      { outward },
    );
}

function more(all: readonly unknown[]): string {
  return all.length > 1 ? ` and ${all.length - 1} more` : "";
}

async function saveBefore(
  { plan, saver, lease, workspace }: CherryPickWork,
  newest: Planes,
): Promise<CheckpointSummary> {
  const name = `before ${nameOf(plan)}`;
  const before = await saver.snapshot(workspace, name);
  if (before.files.tree !== plan.files.fromTree) throw changedSince(workspace.root, "cherry-pick");
  const target = `${plan.run}@${before.sequence}`;
  return await saver.commit({
    lease,
    planes: { ...newest, files: before.files },
    params: { trigger: "before_risky", name },
    entries: [{ kind: "restore.started", body: { target, paths: plan.asked, cherryPick: plan.source.id } }],
    sequence: before.sequence,
  });
}

async function keepEdits({ adapters, plan, workspace }: CherryPickWork): Promise<void> {
  const { snapshot } = await workspace.look(snapshotParams(adapters));
  await adapters.workspaces?.keep({ run: plan.run, commit: snapshot });
}

/** Moves the base of running steps, so that a call that resumes its session and then fails restores the cherry-picked files. */
function pickedPlanes(planes: Planes, sequence: number): Planes {
  const { stageAttempt } = planes.position;
  if (stageAttempt.running === undefined) return planes;
  const running = Object.fromEntries(
    Object.entries(stageAttempt.running).map(([name, step]) => [name, step.files ? { ...step, base: sequence } : step]),
  );
  return { ...planes, position: { ...planes.position, stageAttempt: { ...stageAttempt, running } } };
}

/** Without the mark that makes it literal. */
export function nameAsked(path: string): string {
  return path.startsWith(LITERAL) ? path.slice(LITERAL.length) : path;
}

function nameOf({ source }: CherryPickPlan): string {
  return `cherry-pick from ${source.id}`;
}

/** As in git: what follows is a name, whatever characters it has. */
export const LITERAL = ":(literal)";

/**
 * Resolves the requested files and folders, relative to the root. An existing path with exactly that name, or one after
 * `:(literal)`, is meant literally. Otherwise `*`, `**`, `?` and `[…]` form a pattern over the files of both sides. A pattern without a match
 * throws USAGE. The planner of the restore checks plain names that do not exist.
 */
export function choosePaths(asked: readonly string[], files: readonly GitPath[]): readonly GitPath[] {
  const chosen = new Set<GitPath>();
  for (const path of asked) {
    if (path.startsWith(LITERAL)) chosen.add(nameAsked(path));
    else if (!/[*?[]/.test(path) || files.some((file) => isBelow(file, path))) chosen.add(path);
    else for (const file of filesLike(path, files)) chosen.add(file);
  }
  return [...chosen];
}

/** True when the file is this path or is inside this folder. */
export function isBelow(file: GitPath, path: string): boolean {
  const folder = path.replace(/\/+$/, "");
  return folder === "." || folder === "" || file === folder || file.startsWith(`${folder}/`);
}

function filesLike(pattern: string, files: readonly GitPath[]): readonly GitPath[] {
  const test = globTest(pattern);
  // Git quotes names with control characters. The quotes are not part of the name.
  const found = files.filter((file) => test.test(file.startsWith('"') ? file.slice(1, -1) : file));
  if (found.length > 0) return found;
  throw usageError(
    `No file on either side is like ${pattern}`,
    "* stays within a folder, ** goes below; quote it, so that the shell leaves it alone.",
  );
}

/** A pattern that matches a folder includes everything in it. */
function globTest(pattern: string): RegExp {
  const source = pattern
    .replace(/\/+$/, "")
    .replaceAll(/\*\*\/|\*\*|\*|\?|\[(!?)([^\]/]+)\]|[\s\S]/g, (token: string, not?: string, set?: string) => {
      if (token === "**/") return "(?:[^/]+/)*";
      if (token === "**") return ".*";
      if (token === "*") return "[^/]*";
      if (token === "?") return "[^/]";
      if (set !== undefined) return `[${not === "!" ? "^" : ""}${set.replaceAll(/[\\\]^[]/g, "\\$&")}]`;
      return token.replace(/[\\^$.|+(){}[\]]/, "\\$&");
    });
  return new RegExp(`^${source}(?:/.*)?$`, "s");
}

/** True when a link at this path would point outside the worktree. Decided from the names alone, not from existing files. */
export function isOutsideRoot(path: string, target: string): boolean {
  if (target.startsWith("/") || /^[A-Za-z]:[\\/]/.test(target) || target.startsWith("\\\\")) return true;
  let depth = path.split("/").length - 1;
  for (const name of target.split(/[\\/]/)) {
    if (name === "..") depth -= 1;
    else if (name !== "" && name !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

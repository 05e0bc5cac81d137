// Removes the worktrees of runs that have ended, after their files are in a checkpoint. `restore`, `resume` and `fork` create them again.
import { HoldfastError } from "@holdfast/platform/error";
import { isInside, realPath } from "@holdfast/platform/files";
import { type CoreAdapters, WORKTREE, snapshotParams } from "./adapters.ts";
import type { CheckpointId } from "./checkpoint.ts";
import { acquireLease } from "./hold-lease.ts";
import { listIgnoredWork } from "./ignored-work.ts";
import type { NewEntry } from "./journal.ts";
import type { Lease } from "./lease.ts";
import { type RunSummary, isEnded } from "./run.ts";
import { Saver } from "./save.ts";
import { sameFiles } from "./state.ts";
import type { PreviewSnapshot, Workspace, WorktreeContent } from "./workspace.ts";

/** A worktree of a run that has ended. */
export interface WorktreeRemoval {
  readonly run: string;
  readonly path: string;
  /** Why it stays; null: it is removed. */
  readonly kept: string | null;
  /** Ignored files that only this worktree has. They are lost with it, so it is removed only by force. */
  readonly ignored: readonly string[];
  /** Whether its files must be saved first: the newest checkpoint has others. */
  readonly unsaved: boolean;
}

export interface RemovedWorktree extends WorktreeRemoval {
  readonly removed: boolean;
  /** The checkpoint that has its files; null: it stays, or it was gone already. */
  readonly savedAs: CheckpointId | null;
}

export interface RemovalScope {
  /** Only this run, also in the first day after its end. */
  readonly run?: string;
  /** Also worktrees with ignored files or nested repositories that no checkpoint holds. */
  readonly force: boolean;
  /** The user's directory: its worktree stays. */
  readonly here: string;
}

const DAY = 86_400_000;

/** The worktrees that Holdfast made for runs that ended more than a day ago. Changes nothing. */
export async function planWorktreeRemovals(
  adapters: CoreAdapters,
  scope: RemovalScope,
): Promise<readonly WorktreeRemoval[]> {
  const removals: WorktreeRemoval[] = [];
  const { workspaces, ownsRefs } = adapters;
  // Another store of this repository may have a run of the same name, whose worktree it is.
  if (workspaces === null || !ownsRefs) return removals;
  for (const run of await adapters.store.listRuns()) {
    if (WORKTREE in run.labels || !isEnded(run.state)) continue;
    const isYoung = adapters.clock.now() - Date.parse(run.state.at) < DAY;
    if (scope.run === undefined ? isYoung : run.id !== scope.run) continue;
    const removal = await planRemoval(adapters, run, scope);
    if (removal !== null) removals.push(removal);
  }
  return removals;
}

async function planRemoval(
  adapters: CoreAdapters,
  run: RunSummary,
  { force, here }: RemovalScope,
): Promise<WorktreeRemoval | null> {
  const content = (await adapters.workspaces?.inspectWorktree(run.id)) ?? null;
  if (content === null || (!content.exists && !content.isGone)) return null;
  const { path } = content;
  const nothing = { run: run.id, path, kept: null, ignored: [], unsaved: false };
  if (content.isGone) return content.locked ? null : nothing;
  const workspace = await adapters.workspaces?.find(run.id);
  if (workspace === undefined) return { ...nothing, kept: "its files are not all written yet" };
  const files = await workspace.look(snapshotParams(adapters));
  const ignored = listIgnoredWork(workspace, content.ignored);
  const lease = await adapters.store.getLease(run.id);
  const isHeld = lease !== undefined && adapters.liveness(lease.owner) !== "dead";
  const saved = (await adapters.store.latest(run.id).catch(() => undefined))?.planes.files ?? null;
  const kept = isHeld
    ? "a process uses the run"
    : isInside(realPath(here) ?? here, realPath(path) ?? path)
      ? "you are in it"
      : whyKept(content, files);
  return {
    ...nothing,
    kept: kept ?? (force ? null : whyForce(content, files, ignored)),
    ignored,
    unsaved: !sameFiles(files, saved),
  };
}

/** Reasons that force does not override. */
function whyKept({ locked, operation }: WorktreeContent, files: PreviewSnapshot): string | null {
  if (locked) return "it is locked";
  const skipped = files.skipped.find(({ reason }) => reason !== "nested_repository");
  if (skipped !== undefined) return `no checkpoint can hold ${skipped.path} (${skipped.reason.replaceAll("_", " ")})`;
  return operation === null ? null : `a ${operation} is under way`;
}

/** What only this worktree has. */
function whyForce({ nested }: WorktreeContent, files: PreviewSnapshot, ignored: readonly string[]): string | null {
  const repositories = new Set([...nested, ...files.nested.map(({ path }) => path)]);
  const parts = [
    ...(ignored.length === 0 ? [] : [`ignored files that no set-up makes: ${listed(ignored)}`]),
    ...(repositories.size === 0 ? [] : [`repositories of their own: ${listed([...repositories])}`]),
  ];
  return parts.length === 0 ? null : `it has ${parts.join("; ")}`;
}

function listed(paths: readonly string[]): string {
  const more = paths.length > SHOWN ? ` and ${paths.length - SHOWN} more` : "";
  return `${paths.slice(0, SHOWN).join(", ")}${more}`;
}

const SHOWN = 5;

/**
 * Removes the worktrees that the plan does not keep. Each is planned again. Under the run's lease it is then saved, if a checkpoint lacks its
 * files, and removed. After a kill its files are in the worktree, in a checkpoint, or in both, and the same command completes the removal.
 */
export async function applyWorktreeRemovals(
  adapters: CoreAdapters,
  plan: readonly WorktreeRemoval[],
  scope: RemovalScope,
): Promise<readonly RemovedWorktree[]> {
  const results: RemovedWorktree[] = [];
  for (const removal of plan) {
    const stays = { ...removal, removed: false, savedAs: null };
    if (removal.kept === null)
      results.push(
        await removeOne(adapters, removal, scope).catch((error: unknown) => {
          // One worktree that is in use does not keep the others.
          if (!(error instanceof HoldfastError)) throw error;
          return { ...stays, kept: error.message };
        }),
      );
    else results.push(stays);
  }
  return results;
}

async function removeOne(
  adapters: CoreAdapters,
  planned: WorktreeRemoval,
  scope: RemovalScope,
): Promise<RemovedWorktree> {
  const { workspaces, store } = adapters;
  const summary = await store.getRun(planned.run);
  // The plan is made again before the lease is taken: this process is then the one that uses the run.
  const removal = summary === undefined ? null : await planRemoval(adapters, summary, scope);
  if (summary === undefined || removal === null || removal.kept !== null || workspaces === null)
    return { ...(removal ?? planned), removed: false, savedAs: null };
  await using held = await acquireLease(adapters, removal.run);
  const workspace = await workspaces.find(removal.run);
  const savedAs = workspace === undefined ? null : await saveFiles(adapters, summary, workspace, held.lease);
  await workspaces.remove({ run: removal.run, force: true });
  return { ...removal, removed: true, savedAs };
}

/** The checkpoint that has the files of the worktree: the newest, or a new one. */
async function saveFiles(
  adapters: CoreAdapters,
  { id: run, workflow }: RunSummary,
  workspace: Workspace,
  lease: Lease,
): Promise<CheckpointId> {
  const saver = new Saver(adapters, { id: run, workflow });
  const newest = await saver.newest();
  if (newest === undefined)
    throw new HoldfastError({ code: "CHECKPOINT_NOT_FOUND", message: `Run ${run} has no checkpoint` });
  const removed = (id: string): NewEntry => ({
    kind: "note",
    body: { text: `gc removes the worktree ${workspace.root}: its files are in ${id}` },
  });
  const before = await workspace.look(snapshotParams(adapters));
  const { files: last } = newest.planes;
  if (last !== null && sameFiles(before, last) && (await adapters.workspaces?.has(last)) === true) {
    await adapters.store.commit({ lease, entries: [removed(newest.id)] });
    return newest.id;
  }
  const name = "before gc removes the worktree";
  const { sequence, files } = await saver.snapshot(workspace, name);
  const { id } = await saver.commit({
    lease,
    planes: { ...newest.planes, files },
    params: { trigger: "before_risky", name },
    entries: [removed(`${run}@${sequence}`)],
    sequence,
  });
  const after = await workspace.look(snapshotParams(adapters));
  if (sameFiles(after, files)) return id;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: "files in it changed while they were saved",
    hint: "Stop what is writing there, then run the command again.",
    retry: "later",
  });
}

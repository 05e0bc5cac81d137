// Removes the worktrees of runs that have ended, after their files are in a checkpoint. `restore`, `resume` and `fork` create them again.
//
// A worktree is removed only if a checkpoint brings all of it back. `whyUnsaved` and `whatIsLost` decide that, before the removal and once
// more when the worktree was moved out of its place. A worktree whose files a restore has not completed is never saved: the checkpoint would
// replace the whole files by half of them.
import { HoldfastError, describeList } from "@holdfast/platform/error";
import { isInside, realPath } from "@holdfast/platform/files";
import { readFolderProcesses } from "@holdfast/platform/folder-processes";
import { type CoreAdapters, WORKTREE, snapshotParams } from "./adapters.ts";
import type { CheckpointId, FilesPlane } from "./checkpoint.ts";
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
  /** Also worktrees with what no checkpoint holds: ignored files, nested repositories, a detached HEAD, staged changes, own refs. */
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
  if (content.isGone) {
    const lost = whatIsLost({ content, ignored: [] }, null);
    return content.locked ? null : { ...nothing, kept: force ? null : forceable(run.id, lost) };
  }
  const workspace = await adapters.workspaces?.find(run.id);
  if (workspace === undefined) return { ...nothing, kept: UNWRITTEN };
  const facts = await readFacts(adapters, workspace, content);
  const lease = await adapters.store.getLease(run.id);
  const isHeld = lease !== undefined && adapters.liveness(lease.owner) !== "dead";
  const saved = (await adapters.store.latest(run.id).catch(() => undefined))?.planes.files ?? null;
  const kept = isHeld
    ? "a process uses the run"
    : run.unfinishedRestore !== null
      ? `the restore of ${run.unfinishedRestore} did not finish; complete it with \`holdfast restore ${run.unfinishedRestore}\``
      : isInside(realPath(here) ?? here, realPath(path) ?? path)
        ? "you are in it"
        : (usedBy(path) ?? whyUnsaved(facts) ?? forceable(run.id, whatIsLost(facts, force ? facts : null)));
  return { ...nothing, kept, ignored: facts.ignored, unsaved: !sameFiles(facts.files, saved) };
}

const UNWRITTEN = "its files are not all written yet";

/** What a worktree has. */
interface WorktreeFacts {
  readonly content: WorktreeContent;
  readonly files: PreviewSnapshot;
  readonly ignored: readonly string[];
}

type LossFacts = Omit<WorktreeFacts, "files">;

async function readFacts(
  adapters: CoreAdapters,
  workspace: Workspace,
  content: WorktreeContent,
): Promise<WorktreeFacts> {
  const files = await workspace.look(snapshotParams(adapters));
  return { content, files, ignored: listIgnoredWork(workspace, content.ignored) };
}

/** A shell, an editor or a server there would continue in a deleted directory. */
function usedBy(path: string): string | null {
  const inside = (readFolderProcesses(path) ?? []).filter(({ pid }) => pid !== process.pid);
  return inside.length === 0
    ? null
    : `processes work in it: ${describeList(inside.map(({ name, pid }) => `${name} (${pid})`))}`;
}

/** Why this worktree stays, also with --force. */
function whyUnsaved({ content: { locked, operation }, files }: WorktreeFacts): string | null {
  if (locked) return "it is locked";
  const skipped = files.skipped.find(({ reason }) => reason !== "nested_repository");
  if (skipped !== undefined) return `no checkpoint can hold ${skipped.path} (${skipped.reason.replaceAll("_", " ")})`;
  return operation === null ? null : `a ${operation} is under way`;
}

function forceable(run: string, why: string | null): string | null {
  return why === null ? null : `${why}. To remove it all the same: \`holdfast gc ${run} --force\``;
}

/** What no checkpoint holds; null: nothing, or only what `consented` has, which the user gives up by force. */
function whatIsLost(facts: LossFacts, consented: LossFacts | null): string | null {
  const given = consented === null ? null : onlyHere(consented);
  const parts = Object.entries(onlyHere(facts)).flatMap(([what, items]) => {
    const lost = items.filter((item) => given?.[what]?.includes(item) !== true);
    return lost.length === 0 ? [] : [`${what}: ${describeList(lost)}`];
  });
  return parts.length === 0 ? null : `it has ${parts.join("; ")}`;
}

/** What only this worktree has, and a restore does not bring back. */
function onlyHere({ content, ignored }: LossFacts): Readonly<Record<string, readonly string[]>> {
  const isRepository = (path: string): boolean => path.endsWith("/");
  const repositories = [...content.nested, ...ignored.filter(isRepository)];
  return {
    "ignored files that no set-up makes": ignored.filter((path) => !isRepository(path)),
    "repositories of their own": [...new Set(repositories.map((path) => path.replace(/\/$/, "")))],
    "a detached HEAD": content.detached === null ? [] : [content.detached.slice(0, SHORT_ID)],
    "staged changes that the files do not have": content.staged,
    "refs of its own": content.refs,
  };
}

const SHORT_ID = 12;

/**
 * Removes the worktrees that the plan does not keep. Each is planned again. Under the run's lease it is then saved, if a checkpoint lacks its
 * files, moved out of its place, checked once more and deleted. After a kill its files are in the worktree, in a checkpoint, or in both. The
 * next command puts it back or deletes the rest of it, and the same command completes the removal.
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
  if ((await store.getRun(removal.run))?.unfinishedRestore !== null) throw changed("a restore of it did not finish");
  const content = await workspaces.inspectWorktree(removal.run);
  if (content?.exists !== true) {
    await workspaces.remove({ run: removal.run, force: true });
    return { ...removal, removed: true, savedAs: null };
  }
  const workspace = await workspaces.find(removal.run);
  if (workspace === undefined) throw changed(UNWRITTEN);
  const before = await readFacts(adapters, workspace, content);
  const { id, files } = await saveFiles(adapters, summary, workspace, held.lease);
  await workspaces.remove({
    run: removal.run,
    force: true,
    async check(moved, found) {
      const now = await readFacts(adapters, moved, found);
      const why = usedBy(moved.root) ?? whyUnsaved(now) ?? whatIsLost(now, scope.force ? before : null);
      if (why !== null) throw changed(why);
      if (!sameFiles(now.files, files)) throw changed("files in it changed while they were saved");
    },
  });
  return { ...removal, removed: true, savedAs: id };
}

function changed(why: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: why,
    hint: "Stop what is writing there, then run the command again.",
    retry: "later",
  });
}

/** The checkpoint that has the files of the worktree: the newest, or a new one. */
async function saveFiles(
  adapters: CoreAdapters,
  summary: RunSummary,
  workspace: Workspace,
  lease: Lease,
): Promise<{ readonly id: CheckpointId; readonly files: FilesPlane }> {
  const run = summary.id;
  const saver = new Saver(adapters, summary);
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
    return { id: newest.id, files: last };
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
  return { id, files };
}

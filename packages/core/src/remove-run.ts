// Removes a whole run: its worktrees, branch, refs, checkpoints and logs. Its journal and the receipts of its side effects stay as a tombstone.
import { HoldfastError, describeList } from "@holdfast/platform/error";
import { type CoreAdapters, snapshotParams } from "./adapters.ts";
import type { Effect } from "./effects.ts";
import type { Forge, PullRequest } from "./forge.ts";
import { acquireLease } from "./hold-lease.ts";
import { listIgnoredWork } from "./ignored-work.ts";
import { asRecord, nullable, object, parseJsonAs, text } from "./json.ts";
import { type RunSummary, isEnded } from "./run.ts";
import { ANY_REMOVED, readRunTombstone, tombstoneKey } from "./run-statuses.ts";
import { type Store, allCheckpoints } from "./store.ts";
import type { InspectRun, RunRemains, SavedFiles, WorktreeCheck, Workspaces } from "./workspace.ts";

/** A branch outside holdfast/ that a run created, and the commit at which it began; null: unknown. */
interface CreatedBranch {
  readonly branch: string;
  readonly base: string | null;
}

const CREATED = nullable(object<CreatedBranch>({ branch: text, base: nullable(text) }));

function createdKey(run: string): string {
  return `run.branch.${run}`;
}

/**
 * Call it before the run's worktree is created. It records that the run creates its branch, unless the branch is there already. A kill
 * before the branch exists leaves the record without a branch. If another process then creates one, it has other commits, or nothing to
 * lose; the record of one with other commits is dropped.
 */
export async function recordBranch(
  { store, workspaces }: Pick<CoreAdapters, "store" | "workspaces">,
  params: { readonly run: string; readonly branch: string; readonly base: string | null },
): Promise<void> {
  const { run, base } = params;
  const branch = `refs/heads/${params.branch}`;
  if (workspaces === null || branch === `refs/heads/holdfast/${run}`) return;
  const tip = await workspaces.branchTip(branch);
  const known = await readCreated(store, run);
  const next = tip === null ? { branch, base } : known?.branch === branch && known.base === tip ? known : null;
  if (next !== known) await store.setMeta(createdKey(run), JSON.stringify(next));
}

async function readCreated(store: Store, run: string): Promise<CreatedBranch | null> {
  const stored = await store.getMeta(createdKey(run));
  return stored === undefined ? null : (parseJsonAs(CREATED, stored) ?? null);
}

export interface RunRemoval {
  readonly run: string;
  readonly state: RunSummary["state"]["kind"];
  readonly checkpoints: number;
  /** What it has in the repository; null without one. */
  readonly remains: RunRemains | null;
  /** Files that git ignores and that only its worktree has. */
  readonly ignored: readonly string[];
  /** Receipts of its side effects, which stay. */
  readonly effects: readonly { readonly kind: string; readonly target: string; readonly receipt: unknown }[];
  /** Why it is not removed without force. */
  readonly reasons: readonly string[];
  /** Runs that were forked from it. They need its journal, so it is not removed before them, not even by force. */
  readonly forks: readonly string[];
  /** An earlier removal was interrupted, or nothing is left to remove. */
  readonly begun: boolean;
}

/** Only looks. `forge` is asked whether the run's pull request was merged, because a squash leaves its commits unmerged. */
export async function planRunRemoval(
  adapters: CoreAdapters,
  params: { readonly run: RunSummary; readonly forge: Forge | null },
): Promise<RunRemoval> {
  const { id, state } = params.run;
  const { store, workspaces } = adapters;
  const remains = workspaces === null ? null : await workspaces.inspectRun(await readFacts(store, workspaces, id));
  const workspace = remains?.worktree == null ? undefined : await workspaces?.find(id);
  const ignored = workspace === undefined ? [] : listIgnoredWork(workspace, remains?.losses.ignored ?? []);
  const effects = await store.listEffects(id);
  const begun = (await readRunTombstone(store, id)) !== undefined;
  const untouched = await findUntouchedFork(adapters, params.run);
  const forks = (await store.listRuns()).filter(({ forkedFrom }) => forkedFrom?.id.startsWith(`${id}@`) === true);
  return {
    run: id,
    state: state.kind,
    checkpoints: params.run.checkpoints,
    remains,
    ignored,
    effects: effects.flatMap(({ kind, target, state: at }) =>
      at.kind === "done" ? [{ kind, target, receipt: at.receipt }] : [],
    ),
    begun,
    forks: forks.map((fork) => fork.id),
    reasons: [
      ...(begun || isEnded(state) || untouched !== null ? [] : [unendedReason(params.run)]),
      ...(remains === null
        ? []
        : await lossesOf({ remains: withoutCopies(remains, untouched), ignored, effects, forge: params.forge })),
    ],
  };
}

/** A run without a workflow never ends. */
function unendedReason({ workflow, checkpoints }: RunSummary): string {
  if (workflow !== "manual") return "it has not ended";
  return `you saved it by hand, and its ${checkpoints === 1 ? "checkpoint is" : `${checkpoints} checkpoints are`} nowhere else`;
}

/**
 * A fork that never ran has nothing that its parent's checkpoint lacks, except what the user did in its worktree. null: it is none. `files`:
 * whether its worktree, if it has one, is as the fork made it.
 */
async function findUntouchedFork(
  adapters: CoreAdapters,
  { id, forkedFrom, checkpoints, latest }: RunSummary,
): Promise<{ readonly files: boolean } | null> {
  const { store, workspaces } = adapters;
  if (forkedFrom === null || checkpoints > (latest === null ? 0 : 1)) return null;
  for await (const { kind } of store.readJournal({ run: id }))
    if (kind.startsWith("stage.") || kind.startsWith("step.")) return null;
  const made = (await store.latest(id).catch(() => undefined))?.planes.files ?? null;
  const now = await (await workspaces?.find(id))?.look(snapshotParams(adapters)).catch(() => undefined);
  if (made === null || now === undefined) return { files: false };
  // A file that is too large for a checkpoint and a nested repository are in no tree.
  const whole = now.skipped.length === 0 && now.nested.length === 0;
  return { files: whole && now.tree === made.tree && now.head === made.head && now.index === made.index };
}

/** The uncommitted files that a fork copied are in the checkpoint that it was forked from. */
function withoutCopies(remains: RunRemains, untouched: { readonly files: boolean } | null): RunRemains {
  if (untouched?.files !== true) return remains;
  return { ...remains, losses: { ...remains.losses, files: [], saved: [] } };
}

/**
 * What only the journal knows about the work that a removal would lose. Checkpoints of a run contain half-done work that the run then
 * committed, so they do not count. Those after its end do: the user or `gc` made them. So does the newest one, if the worktree is gone.
 */
async function readFacts(store: Store, workspaces: Workspaces, run: string): Promise<InspectRun> {
  const made = new Set<string>();
  let hasEnded = false;
  /** The process that ended the run saves a checkpoint with the end, and then releases its lease. */
  let released = Infinity;
  for await (const { kind, entry, body } of store.readJournal({ run })) {
    if (kind === "run.ended") hasEnded = true;
    if (kind === "run.reopened") [hasEnded, released] = [false, Infinity];
    if (hasEnded && kind.startsWith("lease.")) released = Math.min(released, entry);
    if (kind === "step.finished") for (const [id] of JSON.stringify(body).matchAll(COMMIT_ID)) made.add(id);
  }
  const saved: SavedFiles[] = [];
  let hasBegun = false;
  const newest = await store.latest(run).catch(() => undefined);
  const isGone = (await workspaces.find(run)) === undefined;
  for await (const { id, sequence, entry } of allCheckpoints(store, run)) {
    hasBegun = true;
    if (entry < released && !(isGone && sequence === newest?.sequence)) continue;
    const files = (await store.getCheckpoint({ run, sequence }).catch(() => undefined))?.planes.files ?? null;
    if (files !== null) saved.push({ id, tree: files.tree, head: files.head });
  }
  const { branch = null, head = null } = newest?.planes.files ?? {};
  // A run that was killed before its first checkpoint created the branch only if it is where the run was to begin.
  const known = await readCreated(store, run);
  const isOwn = known !== null && (hasBegun || (await workspaces.branchTip(known.branch)) === known.base);
  return { run, branch, head, created: isOwn ? known.branch : null, made, saved };
}

const COMMIT_ID = /\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b/g;

async function lossesOf(params: {
  readonly remains: RunRemains;
  readonly ignored: readonly string[];
  readonly effects: readonly Effect[];
  readonly forge: Forge | null;
}): Promise<readonly string[]> {
  const { remains, ignored } = params;
  const { files, operation, branch, detached, pinned, saved } = remains.losses;
  const isRepository = (path: string): boolean => path.endsWith("/");
  const isFile = (path: string): boolean => !isRepository(path);
  const tip = remains.branch?.tip ?? null;
  const isMerged = branch.length === 0 || tip === null || (await isMergedAt(params.effects, tip, params.forge));
  return [
    ...namedReason(files.filter(isFile), (count) => `its worktree has ${count} uncommitted file`),
    ...namedReason(ignored.filter(isFile), (count) => `its worktree has ${count} ignored file`),
    ...namedReason(
      [...files, ...ignored].filter(isRepository),
      (count) => `its worktree has ${count} ${count === 1 ? "repository" : "repositories"} of its own`,
      ["", ""],
    ),
    ...(operation === null ? [] : [`a ${operation} is under way in its worktree`]),
    ...(isMerged ? [] : countReason(branch, (count) => `its branch has ${count} unmerged commit`)),
    ...countReason(detached, (count) => `the detached HEAD of its worktree has ${count} unmerged commit`),
    ...namedReason(
      pinned.map((commit) => commit.slice(0, SHORT_ID)),
      (count) => `its checkpoints have the only copy of ${count} commit`,
    ),
    ...namedReason(saved, (count) => `its checkpoints have the only copy of ${count} uncommitted file`),
  ];
}

function countReason(
  losses: readonly string[],
  text: (count: number) => string,
  [one, many]: readonly [string, string] = ["", "s"],
): readonly string[] {
  return losses.length === 0 ? [] : [`${text(losses.length)}${losses.length === 1 ? one : many}`];
}

function namedReason(...[losses, ...rest]: Parameters<typeof countReason>): readonly string[] {
  return countReason(losses, ...rest).map((reason) => `${reason} (${describeList(losses, NAMED)})`);
}

const NAMED = 3;
const SHORT_ID = 12;

/** True if a pull request of the run was merged with all commits of the branch. An unreachable forge proves nothing. */
async function isMergedAt(effects: readonly Effect[], tip: string, forge: Forge | null): Promise<boolean> {
  for (const { state } of forge === null ? [] : effects) {
    const { number, url } = asRecord(state.kind === "done" ? state.receipt : null);
    if (typeof number !== "number" || typeof url !== "string") continue;
    const request: PullRequest | null = (await forge?.getPullRequest(number).catch(() => null)) ?? null;
    if (request?.state === "merged" && request.url === url && request.headCommit === tip) return true;
  }
  return false;
}

/** Throws NEEDS_DECISION if the run is not to be removed with these rights. */
export function requireRemovable({ run, reasons, forks, remains }: RunRemoval, force: boolean): void {
  if (forks.length > 0) {
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `${run} is not removed: ${forks.map((fork) => `${fork} was forked from it`).join("; ")}`,
      hint: `A fork needs the run that it comes from. To remove them together: \`holdfast rm ${[run, ...forks].join(" ")}\`.`,
      data: { run, reasons, forks },
    });
  }
  if (reasons.length === 0 || force) return;
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `${run} is not removed: ${reasons.join("; ")}`,
    hint: `Nothing was removed. ${restoreHint(remains)}To remove it all the same: \`holdfast rm ${run} --force\`.`,
    data: { run, reasons, forks },
  });
}

/** How to get what only checkpoints have. */
function restoreHint(remains: RunRemains | null): string {
  const { saved = [], pinned = [] } = remains?.losses ?? {};
  const [id] = saved[0]?.split(":") ?? [];
  const [commit] = pinned;
  const files = id === undefined ? "" : `To get the files: \`holdfast restore ${id}\`. `;
  return `${files}${commit === undefined ? "" : `To keep a commit: \`git branch NAME ${commit.slice(0, SHORT_ID)}\`. `}`;
}

/**
 * What `now` would lose beyond what `before` named. The consent of --force covers what the user could see, not what was added after it.
 */
function findNewLosses(before: RunRemoval, now: RunRemoval): readonly string[] {
  const known = before.remains?.losses;
  const found = now.remains?.losses;
  if (found === undefined) return [];
  const kinds = ["files", "branch", "detached", "pinned", "saved"] as const;
  // A commit that loses its branch meanwhile is the same loss.
  const seen = new Set([...before.ignored, ...kinds.flatMap((kind) => known?.[kind] ?? [])]);
  return [...now.ignored, ...kinds.flatMap((kind) => found[kind])].filter((loss) => !seen.has(loss));
}

/**
 * Plans again under the lease, and refuses if the run has work that the given plan does not name. Then records the removal: from then on
 * no command uses the run, and the same call completes what a kill interrupted. The lease keeps other processes from continuing the run
 * meanwhile. LEASE_HELD if one works on it.
 */
export async function applyRunRemoval(
  adapters: CoreAdapters,
  planned: RunRemoval,
  params: {
    readonly by: string;
    readonly force: boolean;
    readonly forge: Forge | null;
    /** Removes the files that the run keeps for other tools. They are found by its checkpoints. */
    readonly removeFiles: (run: string) => Promise<void>;
  },
): Promise<{ readonly freedBytes: number }> {
  const { store, workspaces } = adapters;
  const { run } = planned;
  const { by, force, forge } = params;
  requireRemovable(planned, force);
  await using _held = await acquireLease(adapters, run);
  const summary = await store.getRun(run);
  if (summary === undefined) throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${run}` });
  const removal = await planRunRemoval(adapters, { run: summary, forge });
  requireRemovable(removal, force);
  requireUnchanged(planned, removal);
  const { remains } = removal;
  if (remains?.locked === true) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `The worktree of ${run} is locked`,
      hint: `Run \`git worktree unlock ${remains.worktree ?? run}\` first.`,
    });
  }
  const removedAt = new Date(adapters.clock.now()).toISOString();
  const { unfinished: _, ...tombstone } = (await readRunTombstone(store, run)) ?? { removedAt, by };
  await store.setMeta(ANY_REMOVED, "yes");
  await store.setMeta(tombstoneKey(run), JSON.stringify({ ...tombstone, unfinished: true }));
  const check: WorktreeCheck = async (moved, content) => {
    const found = listIgnoredWork(moved, content.ignored);
    requireUnchanged(removal, { ...removal, ignored: found });
  };
  if (remains !== null) await workspaces?.removeRun({ run, expected: remains, check });
  await params.removeFiles(run);
  const checkpoints = await Array.fromAsync(allCheckpoints(store, run));
  for (const tag of checkpoints.flatMap(({ tags }) => tags)) await store.untag({ run, name: tag });
  // The store keeps the newest checkpoint of each run: the journal's chain ends in it.
  const newest = Math.max(...checkpoints.map(({ sequence }) => sequence));
  const drops = checkpoints.flatMap(({ sequence }) =>
    sequence === newest ? [] : [{ sequence, why: `run removed by ${by}` }],
  );
  if (drops.length > 0) await store.drop({ run, drops });
  await adapters.logs.remove(run);
  const { freedBytes } = await store.sweep();
  await store.setMeta(tombstoneKey(run), JSON.stringify(tombstone));
  return { freedBytes };
}

function requireUnchanged(planned: RunRemoval, now: RunRemoval): void {
  const found = findNewLosses(planned, now);
  if (found.length === 0) return;
  throw new HoldfastError({
    code: "CONFLICT",
    message: `${now.run} is not removed: it changed since the removal was planned (${describeList(found, NAMED)})`,
    hint: "Check what is new, then run the command again.",
    data: { run: now.run, found: found.slice(0, 100) },
  });
}

/** Throws RUN_NOT_FOUND for a run that was removed. The message says what it had opened. */
export async function refuseRemoved(store: Pick<Store, "getMeta" | "listEffects">, run: string): Promise<void> {
  const tombstone = await readRunTombstone(store, run);
  if (tombstone === undefined) return;
  if (tombstone.unfinished === true) {
    throw new HoldfastError({
      code: "RUN_NOT_FOUND",
      message: `Run ${run} is half removed: its removal by ${tombstone.by} was interrupted`,
      hint: `Complete it with \`holdfast rm ${run}\`.`,
      data: { run, ...tombstone },
    });
  }
  const urls = (await store.listEffects(run)).flatMap(({ state }) => {
    const { url } = asRecord(state.kind === "done" ? state.receipt : null);
    return typeof url === "string" ? [url] : [];
  });
  const opened = urls.length === 0 ? "" : ` It had opened ${urls.join(", ")}.`;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `Run ${run} was removed on ${tombstone.removedAt} by ${tombstone.by}`,
    hint: `Its id is not used again; \`holdfast list\` shows the runs there are.${opened}`,
    data: { run, ...tombstone, urls },
  });
}

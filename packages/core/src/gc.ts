// Garbage collection: applies retention, deletes orphaned refs and side worktrees, and sweeps unreferenced data from the store.
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, findNewerRefs } from "./adapters.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import { commitsIn } from "./journal.ts";
import { type RetentionPlan, type RetentionPolicy, type RetentionSubject, planRetention } from "./retention.ts";
import { type RunSummary, isEnded } from "./run.ts";
import { type SweepReport, type Tombstone, allCheckpoints, newestUsable } from "./store.ts";
import type { SideWorktreeInfo, SideWorktreeRef, SnapshotRef } from "./workspace.ts";

const DAY = 86_400_000;
const PAGE = 1000;
/** Milliseconds after which an unreferenced ref counts as orphaned. A ref is created before its checkpoint is committed. */
const LITTER_AGE = 3_600_000;
const LAST_GC = "gc.last";

export interface GcPlan {
  readonly plans: readonly RetentionPlan[];
  readonly danglingRefs: readonly string[];
  /** Side worktrees of ended runs that were not removed. */
  readonly sideWorktrees: readonly SideWorktreeInfo[];
  readonly sweep: SweepReport;
  /** Usage of every examined run, largest first. */
  readonly usage: readonly RunUsage[];
}

export interface RunUsage {
  readonly run: string;
  readonly checkpoints: number;
  /** Uncompressed bytes that its checkpoints added to the store. Files are git objects and are not counted. */
  readonly bytes: number;
}

export interface GcReport {
  readonly dropped: readonly Tombstone[];
  /** Paths of the removed side worktrees. */
  readonly sideWorktrees: readonly string[];
  readonly unpinned: readonly string[];
  readonly sweep: SweepReport;
}

export async function planGc(
  adapters: CoreAdapters,
  params: { readonly policy?: RetentionPolicy; readonly run?: string },
): Promise<GcPlan> {
  const policy = params.policy ?? adapters.retention;
  const now = adapters.clock.now();
  const runs = await adapters.store.listRuns();
  const refs = (await adapters.workspaces?.refs()) ?? [];
  const subjects: RetentionSubject[] = [];
  for (const run of runs) {
    if (params.run === undefined || run.id === params.run)
      subjects.push(await subjectOf({ adapters, run, runs, refs }));
  }
  const plans = planRetention({ subjects, policy, now });
  const all = params.run === undefined;
  const stale = all ? await findStaleSideWorktrees(adapters, { runs, plans }) : { refs: [], folders: [] };
  return {
    plans,
    danglingRefs: all ? [...(await danglingRefs(adapters, refs, runs)), ...stale.refs] : [],
    sideWorktrees: stale.folders,
    usage: usageOf(subjects),
    sweep: await adapters.store.sweep({ dryRun: true }),
  };
}

function usageOf(subjects: readonly RetentionSubject[]): readonly RunUsage[] {
  return subjects
    .map(({ run, checkpoints }) => ({
      run,
      checkpoints: checkpoints.length,
      bytes: checkpoints.reduce((sum, { size }) => sum + size.added, 0),
    }))
    .toSorted((a, b) => b.bytes - a.bytes);
}

/** Drops checkpoints in the store first, then their refs. After a kill in between, the next gc removes the orphaned refs. */
export async function applyGc(adapters: CoreAdapters, plan: GcPlan): Promise<GcReport> {
  const dropped: Tombstone[] = [];
  const refs = new Set(plan.danglingRefs);
  for (const { run, decisions } of plan.plans) {
    const drops = decisions.flatMap((d) => (d.action === "drop" ? [{ sequence: d.sequence, why: d.why }] : []));
    for (let from = 0; from < drops.length; from += PAGE) {
      const page = drops.slice(from, from + PAGE);
      const pins = await pinsOf(adapters, run, page);
      dropped.push(...(await adapters.store.drop({ run, drops: page })));
      for (const ref of pins) refs.add(ref);
    }
  }
  const sideWorktrees = await removeSideWorktrees(adapters, plan.sideWorktrees);
  const unpinned = await unpin(adapters, [...refs]);
  const sweep = await adapters.store.sweep();
  await adapters.store.setMeta(LAST_GC, String(adapters.clock.now()));
  return { dropped, sideWorktrees, unpinned, sweep };
}

/** If one cannot be removed now, the next gc finds it again. */
async function removeSideWorktrees(
  adapters: CoreAdapters,
  sideWorktrees: GcPlan["sideWorktrees"],
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const { run, key, path } of sideWorktrees) {
    const isGone = await adapters.workspaces?.sideWorktrees.remove({ run, key }).then(
      () => true,
      () => false,
    );
    if (isGone === true) removed.push(path);
  }
  return removed;
}

/** Uses the ref that the checkpoint itself names, because a ref with the same name could belong to another store. */
async function pinsOf(
  adapters: CoreAdapters,
  run: string,
  drops: readonly { readonly sequence: number }[],
): Promise<readonly string[]> {
  const pins: string[] = [];
  for (const { sequence } of adapters.workspaces === null ? [] : drops) {
    // A checkpoint that cannot be read keeps its ref. `verify` reports the damage.
    const checkpoint = await adapters.store.getCheckpoint({ run, sequence }).catch(() => undefined);
    const ref = checkpoint?.planes.files?.ref;
    if (ref !== undefined) pins.push(ref);
  }
  return pins;
}

/** A ref that cannot be removed now (git is busy) is found by the next gc, so this does not fail. */
async function unpin(adapters: CoreAdapters, refs: readonly string[]): Promise<readonly string[]> {
  if (refs.length === 0 || adapters.workspaces === null) return [];
  try {
    await adapters.workspaces.unpin(refs);
    return refs;
  } catch {
    const { workspaces } = adapters;
    const found = await Promise.all([workspaces.refs(), workspaces.sideWorktrees.refs()]);
    const left = new Set(found.flat().map(({ ref }) => ref));
    return refs.filter((ref) => !left.has(ref));
  }
}

/** Due once a day. If the clock was set back by less than a day, gc is due later; by more than a day, it is due at once. */
export async function gcIsDue(adapters: CoreAdapters): Promise<boolean> {
  const last = Number((await adapters.store.getMeta(LAST_GC)) ?? "0");
  const now = adapters.clock.now();
  return !Number.isFinite(last) || now - last >= DAY || now < last - DAY;
}

async function subjectOf(params: {
  readonly adapters: CoreAdapters;
  readonly run: RunSummary;
  readonly runs: readonly RunSummary[];
  readonly refs: readonly SnapshotRef[];
}): Promise<RetentionSubject> {
  const { adapters, run, runs } = params;
  const checkpoints = await Array.fromAsync(allCheckpoints(adapters.store, run.id));
  const pinned = new Map<number, string>();
  for (const other of runs) {
    const parent = other.forkedFrom?.id;
    if (parent?.startsWith(`${run.id}@`) === true) {
      pinned.set(Number(parent.slice(run.id.length + 1)), `run ${other.id} was forked from it`);
    }
  }
  if (await isRecorded(adapters, run.id))
    for (const { sequence } of checkpoints) pinned.set(sequence, "the run is recorded, and replayed from it");
  const own = params.refs.filter((ref) => ref.run === run.id);
  for (const [sequence, why] of await onlyCopies(adapters, checkpoints, own)) pinned.set(sequence, why);
  const resumable = new Set(checkpoints.flatMap(({ sequence, quarantined }) => (quarantined ? [] : [sequence])));
  return { run: run.id, state: run.state, checkpoints, pinned, resumable };
}

/** A recorded run needs the trees that its steps left, and nothing else refers to them. Unusable checkpoints are skipped. */
async function isRecorded(adapters: CoreAdapters, run: string): Promise<boolean> {
  const { checkpoint } = await newestUsable(adapters.store, run);
  return checkpoint !== undefined && checkpoint.planes.config.mode !== "default";
}

/**
 * Finds work that exists nowhere else: files that a restore replaced, and commits that no branch or remote has. For
 * each such commit, the newest checkpoint on it is enough.
 */
async function onlyCopies(
  adapters: CoreAdapters,
  checkpoints: readonly CheckpointSummary[],
  refs: readonly SnapshotRef[],
): Promise<ReadonlyMap<number, string>> {
  const copies = new Map<number, string>();
  // The list is newest first, so the newest checkpoint with the same files is kept.
  const newestWith = new Map<string, number>();
  for (const { sequence, tree } of checkpoints) {
    if (tree !== null && !newestWith.has(tree)) newestWith.set(tree, sequence);
  }
  for (const { tree, trigger } of checkpoints) {
    const sequence = trigger === "before_restore" && tree !== null ? newestWith.get(tree) : undefined;
    if (sequence !== undefined) copies.set(sequence, "only copy of files that a restore replaced");
  }
  const newestOn = new Map<string, number>();
  for (const { head, sequence } of refs) {
    if (head !== null) newestOn.set(head, Math.max(sequence, newestOn.get(head) ?? 0));
  }
  for (const head of (await adapters.workspaces?.unpublished([...newestOn.keys()])) ?? []) {
    const sequence = newestOn.get(head);
    if (sequence !== undefined) copies.set(sequence, "only copy of commits that no branch or remote has");
  }
  return copies;
}

/** A run with a live lease holder is skipped. It may have pinned its next snapshot long ago, for example before a laptop slept. */
async function danglingRefs(
  adapters: CoreAdapters,
  all: readonly SnapshotRef[],
  runs: readonly RunSummary[],
): Promise<readonly string[]> {
  const byRun = new Map<string, SnapshotRef[]>();
  const old = adapters.clock.now() - LITTER_AGE;
  for (const ref of all) {
    if (Date.parse(ref.createdAt) <= old) byRun.set(ref.run, [...(byRun.get(ref.run) ?? []), ref]);
  }
  // A crash leaves refs only for runs that the store knows, because a run is created before anything is pinned for it.
  const known = new Set(adapters.ownsRefs ? runs.map((run) => run.id) : []);
  const dangling: string[] = [];
  for (const [run, refs] of byRun) {
    if (!known.has(run) || (await isHeld(adapters, run))) continue;
    const checkpoints = await Array.fromAsync(allCheckpoints(adapters.store, run));
    const alive = new Set(checkpoints.map((checkpoint) => checkpoint.sequence));
    // If the store was rolled back, these refs are all that is left of the newer checkpoints.
    const newer = new Set((await findNewerRefs(adapters, run, refs)).map(({ ref }) => ref));
    for (const ref of refs)
      if (!newer.has(ref.ref) && !(await isNamed(adapters, ref, refs, alive))) dangling.push(ref.ref);
  }
  return dangling;
}

async function isHeld(adapters: CoreAdapters, run: string): Promise<boolean> {
  const lease = await adapters.store.getLease(run);
  return lease !== undefined && adapters.liveness(lease.owner) !== "dead";
}

/** After a crash, two refs can exist for one sequence. The checkpoint names its own. */
async function isNamed(
  adapters: CoreAdapters,
  ref: SnapshotRef,
  refs: readonly SnapshotRef[],
  alive: ReadonlySet<number>,
): Promise<boolean> {
  const { run, sequence } = ref;
  if (!alive.has(sequence)) return false;
  if (refs.filter((other) => other.sequence === sequence).length === 1) return true;
  return (await adapters.store.getCheckpoint({ run, sequence })).planes.files?.ref === ref.ref;
}

interface StaleSideWorktrees {
  readonly refs: readonly string[];
  readonly folders: readonly SideWorktreeInfo[];
}

/**
 * Finds refs and directories of side worktrees that are no longer needed. A run that has not ended may
 * need all of them: a restore reopens a side worktree, and a user may look for the partial work of a killed call. One day after the end,
 * only commits are kept that a checkpoint of the run or of its forks mentions.
 */
async function findStaleSideWorktrees(
  adapters: CoreAdapters,
  params: {
    readonly runs: readonly RunSummary[];
    /** Checkpoints that this gc drops need nothing any more. */
    readonly plans: readonly RetentionPlan[];
  },
): Promise<StaleSideWorktrees> {
  const { workspaces, ownsRefs } = adapters;
  if (workspaces === null || !ownsRefs) return { refs: [], folders: [] };
  const [refs, folders] = await Promise.all([workspaces.sideWorktrees.refs(), workspaces.sideWorktrees.list()]);
  const ended = new Map<string, RunSummary>();
  for (const run of params.runs) if (await isOver(adapters, run)) ended.set(run.id, run);
  const stale: string[] = [];
  for (const [id, own] of Map.groupBy(refs, ({ run }) => run)) {
    const run = ended.get(id);
    // If a checkpoint cannot be read, its needs are unknown. All refs are kept, and `verify` reports the damage.
    if (run !== undefined) stale.push(...(await unnamed(adapters, { ...params, run, refs: own }).catch(keepAll)));
  }
  return { refs: stale, folders: folders.filter(({ run }) => ended.has(run)) };
}

function keepAll(error: unknown): readonly string[] {
  if (error instanceof HoldfastError && DAMAGE.has(error.code)) return [];
  throw error;
}

const DAMAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["STORE_CORRUPT", "STORE_CUT", "CHECKPOINT_NOT_FOUND"]);

async function isOver(adapters: CoreAdapters, { id, state }: RunSummary): Promise<boolean> {
  if (!isEnded(state)) return false;
  if (adapters.clock.now() - Date.parse(state.at) < DAY) return false;
  return !(await isHeld(adapters, id));
}

async function unnamed(
  adapters: CoreAdapters,
  params: {
    readonly run: RunSummary;
    readonly runs: readonly RunSummary[];
    readonly plans: readonly RetentionPlan[];
    readonly refs: readonly SideWorktreeRef[];
  },
): Promise<readonly string[]> {
  const dropped = new Set(
    params.plans.flatMap(({ run, decisions }) =>
      decisions.flatMap(({ action, sequence }) => (action === "drop" ? [`${run}@${sequence}`] : [])),
    ),
  );
  const named = new Set<string>();
  for (const id of familyOf(params.run.id, params.runs)) {
    for await (const checkpoint of allCheckpoints(adapters.store, id)) {
      if (dropped.has(checkpoint.id)) continue;
      const { planes } = await adapters.store.getCheckpoint({ run: id, sequence: checkpoint.sequence });
      for (const commit of commitsIn(planes.position.stageAttempt.steps)) named.add(commit);
    }
    const newest = await adapters.store.latest(id);
    for await (const { kind, body } of adapters.store.readJournal({ run: id, after: newest?.entry ?? 0 }))
      if (kind === "step.finished") for (const commit of commitsIn(body)) named.add(commit);
  }
  return params.refs.flatMap(({ ref, commit }) => (named.has(commit) ? [] : [ref]));
}

/** The run, its forks, and their forks. */
function familyOf(run: string, runs: readonly RunSummary[]): ReadonlySet<string> {
  const family = new Set([run]);
  for (let size = 0; size < family.size;) {
    size = family.size;
    for (const { id, forkedFrom } of runs) {
      const parent = forkedFrom?.id;
      if (parent !== undefined && family.has(parent.slice(0, parent.lastIndexOf("@")))) family.add(id);
    }
  }
  return family;
}

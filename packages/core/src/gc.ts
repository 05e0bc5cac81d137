import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, findNewerRefs } from "./adapters.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import { commitsIn } from "./journal.ts";
import { type RetentionPlan, type RetentionPolicy, type RetentionSubject, planRetention } from "./retention.ts";
import type { RunSummary } from "./run.ts";
import { type SweepReport, type Tombstone, allCheckpoints, newestUsable } from "./store.ts";
import type { AsideInfo, AsideRef, SnapshotRef } from "./workspace.ts";

const DAY = 86_400_000;
const PAGE = 1000;
/** A ref is made before its checkpoint is committed: only one that has waited this long is litter. */
const LITTER_AGE = 3_600_000;
const LAST_GC = "gc.last";

export interface GcPlan {
  readonly plans: readonly RetentionPlan[];
  readonly danglingRefs: readonly string[];
  /** Folders of runs that ended without having removed them. */
  readonly asides: readonly AsideInfo[];
  readonly compressBefore: string | null;
  readonly sweep: SweepReport;
  /** Of every run that was looked at, the largest first. */
  readonly usage: readonly RunUsage[];
}

export interface RunUsage {
  readonly run: string;
  readonly checkpoints: number;
  /** What its checkpoints added to the store, before compression. Their files are git objects and not counted. */
  readonly bytes: number;
}

export interface GcReport {
  readonly dropped: readonly Tombstone[];
  /** Folders of asides that were removed. */
  readonly asides: readonly string[];
  readonly unpinned: readonly string[];
  readonly sweep: SweepReport;
}

export async function planGc(
  parts: CoreAdapters,
  params: { readonly policy?: RetentionPolicy; readonly run?: string },
): Promise<GcPlan> {
  const policy = params.policy ?? parts.retention;
  const now = parts.clock.now();
  const runs = await parts.store.listRuns();
  const refs = (await parts.workspaces?.refs()) ?? [];
  const subjects: RetentionSubject[] = [];
  for (const run of runs) {
    if (params.run === undefined || run.id === params.run) subjects.push(await subjectOf({ parts, run, runs, refs }));
  }
  const compressBefore =
    policy.compressAfterDays === null ? null : new Date(now - policy.compressAfterDays * DAY).toISOString();
  const plans = planRetention({ subjects, policy, now });
  const all = params.run === undefined;
  const litter = all ? await findAsideLitter(parts, { runs, plans }) : { refs: [], folders: [] };
  return {
    plans,
    danglingRefs: all ? [...(await danglingRefs(parts, refs, runs)), ...litter.refs] : [],
    asides: litter.folders,
    usage: usageOf(subjects),
    compressBefore,
    sweep: await parts.store.sweep({ dryRun: true, ...(compressBefore === null ? {} : { compressBefore }) }),
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

/** Drops in the store first, refs after: killed in between, refs without a checkpoint are left for the next gc. */
export async function applyGc(parts: CoreAdapters, plan: GcPlan): Promise<GcReport> {
  const dropped: Tombstone[] = [];
  const refs = new Set(plan.danglingRefs);
  for (const { run, decisions } of plan.plans) {
    const drops = decisions.flatMap((d) => (d.action === "drop" ? [{ sequence: d.sequence, why: d.why }] : []));
    for (let from = 0; from < drops.length; from += PAGE) {
      const page = drops.slice(from, from + PAGE);
      const pins = await pinsOf(parts, run, page);
      dropped.push(...(await parts.store.drop({ run, drops: page })));
      for (const ref of pins) refs.add(ref);
    }
  }
  const asides = await removeAsides(parts, plan.asides);
  const unpinned = await unpin(parts, [...refs]);
  const sweep = await parts.store.sweep(plan.compressBefore === null ? {} : { compressBefore: plan.compressBefore });
  await parts.store.setMeta(LAST_GC, String(parts.clock.now()));
  return { dropped, asides, unpinned, sweep };
}

/** One that cannot be removed now is found again by the next gc. */
async function removeAsides(parts: CoreAdapters, asides: GcPlan["asides"]): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const { run, key, path } of asides) {
    const isGone = await parts.workspaces?.asides.remove({ run, key }).then(
      () => true,
      () => false,
    );
    if (isGone === true) removed.push(path);
  }
  return removed;
}

/** By what the checkpoint itself names: a ref of the same name could be another store's. */
async function pinsOf(
  parts: CoreAdapters,
  run: string,
  drops: readonly { readonly sequence: number }[],
): Promise<readonly string[]> {
  const pins: string[] = [];
  for (const { sequence } of parts.workspaces === null ? [] : drops) {
    // One that cannot be read any more leaves its ref; verify has told of it.
    const checkpoint = await parts.store.getCheckpoint({ run, sequence }).catch(() => undefined);
    const ref = checkpoint?.planes.files?.ref;
    if (ref !== undefined) pins.push(ref);
  }
  return pins;
}

/** A ref that cannot be removed now (git is at work) is found again by the next gc: nothing to fail for. */
async function unpin(parts: CoreAdapters, refs: readonly string[]): Promise<readonly string[]> {
  if (refs.length === 0 || parts.workspaces === null) return [];
  try {
    await parts.workspaces.unpin(refs);
    return refs;
  } catch {
    const { workspaces } = parts;
    const found = await Promise.all([workspaces.refs(), workspaces.asides.refs()]);
    const left = new Set(found.flat().map(({ ref }) => ref));
    return refs.filter((ref) => !left.has(ref));
  }
}

/** A clock that jumped back makes it due later, never twice a day. */
export async function gcIsDue(parts: CoreAdapters): Promise<boolean> {
  const last = Number((await parts.store.getMeta(LAST_GC)) ?? "0");
  const now = parts.clock.now();
  return !Number.isFinite(last) || now - last >= DAY || now < last - DAY;
}

async function subjectOf(params: {
  readonly parts: CoreAdapters;
  readonly run: RunSummary;
  readonly runs: readonly RunSummary[];
  readonly refs: readonly SnapshotRef[];
}): Promise<RetentionSubject> {
  const { parts, run, runs } = params;
  const checkpoints = await Array.fromAsync(allCheckpoints(parts.store, run.id));
  const pinned = new Map<number, string>();
  for (const other of runs) {
    const parent = other.forkedFrom?.id;
    if (parent?.startsWith(`${run.id}@`) === true) {
      pinned.set(Number(parent.slice(run.id.length + 1)), `run ${other.id} was forked from it`);
    }
  }
  if (await isRecorded(parts, run.id))
    for (const { sequence } of checkpoints) pinned.set(sequence, "the run is recorded, and replayed from it");
  const own = params.refs.filter((ref) => ref.run === run.id);
  for (const [sequence, why] of await onlyCopies(parts, checkpoints, own)) pinned.set(sequence, why);
  const resumable = new Set(checkpoints.flatMap(({ sequence, quarantined }) => (quarantined ? [] : [sequence])));
  return { run: run.id, state: run.state, checkpoints, pinned, resumable };
}

/** Its trees are what steps left, and nothing else holds them. One that cannot be read is no reason to let go of the rest. */
async function isRecorded(parts: CoreAdapters, run: string): Promise<boolean> {
  const { checkpoint } = await newestUsable(parts.store, run);
  return checkpoint !== undefined && checkpoint.planes.config.mode !== "default";
}

/**
 * Work that exists nowhere else: files that a restore replaced, and commits that no branch or remote has any more.
 * For each such commit the newest checkpoint on it is enough.
 */
async function onlyCopies(
  parts: CoreAdapters,
  checkpoints: readonly CheckpointSummary[],
  refs: readonly SnapshotRef[],
): Promise<ReadonlyMap<number, string>> {
  const copies = new Map<number, string>();
  // Newest first: of several with the same files, the newest is the one that stays.
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
  for (const head of (await parts.workspaces?.unpublished([...newestOn.keys()])) ?? []) {
    const sequence = newestOn.get(head);
    if (sequence !== undefined) copies.set(sequence, "only copy of commits that no branch or remote has");
  }
  return copies;
}

/** A run that somebody is writing may have pinned the next snapshot already, however long ago: a laptop sleeps. */
async function danglingRefs(
  parts: CoreAdapters,
  all: readonly SnapshotRef[],
  runs: readonly RunSummary[],
): Promise<readonly string[]> {
  const byRun = new Map<string, SnapshotRef[]>();
  const old = parts.clock.now() - LITTER_AGE;
  for (const ref of all) {
    if (Date.parse(ref.createdAt) <= old) byRun.set(ref.run, [...(byRun.get(ref.run) ?? []), ref]);
  }
  // A crash leaves refs only of runs that are known: the run is made before anything is pinned for it.
  const known = new Set(parts.ownsRefs ? runs.map((run) => run.id) : []);
  const dangling: string[] = [];
  for (const [run, refs] of byRun) {
    if (!known.has(run) || (await isHeld(parts, run))) continue;
    const checkpoints = await Array.fromAsync(allCheckpoints(parts.store, run));
    const alive = new Set(checkpoints.map((checkpoint) => checkpoint.sequence));
    // Of a store that was rolled back they are all that is left of the newer checkpoints.
    const newer = new Set((await findNewerRefs(parts, run, refs)).map(({ ref }) => ref));
    for (const ref of refs)
      if (!newer.has(ref.ref) && !(await isNamed(parts, ref, refs, alive))) dangling.push(ref.ref);
  }
  return dangling;
}

async function isHeld(parts: CoreAdapters, run: string): Promise<boolean> {
  const lease = await parts.store.getLease(run);
  return lease !== undefined && parts.liveness(lease.owner) !== "dead";
}

/** After a crash two refs can stand for one sequence; the checkpoint tells which of them is its own. */
async function isNamed(
  parts: CoreAdapters,
  ref: SnapshotRef,
  refs: readonly SnapshotRef[],
  alive: ReadonlySet<number>,
): Promise<boolean> {
  const { run, sequence } = ref;
  if (!alive.has(sequence)) return false;
  if (refs.filter((other) => other.sequence === sequence).length === 1) return true;
  return (await parts.store.getCheckpoint({ run, sequence })).planes.files?.ref === ref.ref;
}

interface AsideLitter {
  readonly refs: readonly string[];
  readonly folders: readonly AsideInfo[];
}

/**
 * What asides have left and nobody needs. A run that has not ended may need all of it: a restore opens an aside again, and what a killed call left half-done may
 * be looked for. A day after its end, only commits are kept that a checkpoint of the run or of a fork of it tells of.
 */
async function findAsideLitter(
  parts: CoreAdapters,
  params: {
    readonly runs: readonly RunSummary[];
    /** What is dropped in the same go needs nothing any more. */
    readonly plans: readonly RetentionPlan[];
  },
): Promise<AsideLitter> {
  const { workspaces, ownsRefs } = parts;
  if (workspaces === null || !ownsRefs) return { refs: [], folders: [] };
  const [refs, folders] = await Promise.all([workspaces.asides.refs(), workspaces.asides.list()]);
  const ended = new Map<string, RunSummary>();
  for (const run of params.runs) if (await isOver(parts, run)) ended.set(run.id, run);
  const litter: string[] = [];
  for (const [id, own] of Map.groupBy(refs, ({ run }) => run)) {
    const run = ended.get(id);
    // Where a checkpoint cannot be read, nobody knows what it needs: all stays, and verify tells of the damage.
    if (run !== undefined) litter.push(...(await unnamed(parts, { ...params, run, refs: own }).catch(keepAll)));
  }
  return { refs: litter, folders: folders.filter(({ run }) => ended.has(run)) };
}

function keepAll(error: unknown): readonly string[] {
  if (error instanceof HoldfastError && DAMAGE.has(error.code)) return [];
  throw error;
}

const DAMAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["STORE_CORRUPT", "STORE_CUT", "CHECKPOINT_NOT_FOUND"]);

async function isOver(parts: CoreAdapters, { id, state }: RunSummary): Promise<boolean> {
  if (state.kind !== "done" && state.kind !== "fatal") return false;
  if (parts.clock.now() - Date.parse(state.at) < DAY) return false;
  const lease = await parts.store.getLease(id);
  return lease === undefined || parts.liveness(lease.owner) === "dead";
}

async function unnamed(
  parts: CoreAdapters,
  params: {
    readonly run: RunSummary;
    readonly runs: readonly RunSummary[];
    readonly plans: readonly RetentionPlan[];
    readonly refs: readonly AsideRef[];
  },
): Promise<readonly string[]> {
  const dropped = new Set(
    params.plans.flatMap(({ run, decisions }) =>
      decisions.flatMap(({ action, sequence }) => (action === "drop" ? [`${run}@${sequence}`] : [])),
    ),
  );
  const named = new Set<string>();
  for (const id of familyOf(params.run.id, params.runs)) {
    for await (const checkpoint of allCheckpoints(parts.store, id)) {
      if (dropped.has(checkpoint.id)) continue;
      const { planes } = await parts.store.getCheckpoint({ run: id, sequence: checkpoint.sequence });
      for (const commit of commitsIn(planes.position.visit.steps)) named.add(commit);
    }
    const newest = await parts.store.latest(id);
    for await (const { kind, body } of parts.store.readJournal({ run: id, after: newest?.entry ?? 0 }))
      if (kind === "step.finished") for (const commit of commitsIn(body)) named.add(commit);
  }
  return params.refs.flatMap(({ ref, commit }) => (named.has(commit) ? [] : [ref]));
}

/** The run, and those that were forked from it or from one of those. */
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

import { commitsIn } from "../../core/commits-in.ts";
import { HoldfastError } from "../../core/error.ts";
import type { ErrorCode } from "../../core/error.ts";
import type { RetentionPlan } from "../../core/retention/retention.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { AsideInfo, AsideRef } from "../../ports/aside.ts";
import { allCheckpoints } from "../upkeep/all-checkpoints.ts";
import type { Parts } from "../parts.ts";

const DAY = 86_400_000;

export interface AsideLitter {
  readonly refs: readonly string[];
  readonly folders: readonly AsideInfo[];
}

/**
 * What asides have left and nobody needs. A run that has not ended may need all of it: a restore opens an aside again, and what a killed call left half-done may
 * be looked for. A day after its end, only commits are kept that a checkpoint of the run or of a fork of it tells of.
 */
export async function findAsideLitter(
  parts: Parts,
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

async function isOver(parts: Parts, { id, state }: RunSummary): Promise<boolean> {
  if (state.kind !== "done" && state.kind !== "fatal") return false;
  if (parts.clock.now() - Date.parse(state.at) < DAY) return false;
  const lease = await parts.store.getLease(id);
  return lease === undefined || parts.liveness(lease.owner) === "dead";
}

async function unnamed(
  parts: Parts,
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

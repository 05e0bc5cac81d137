import type { Lease } from "../../core/lease/lease.ts";
import { inTurn } from "../../core/lease/plan-slot.ts";
import { PRIORITIES, priorityKey, readPriority } from "../../core/run/priority.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { isAtWork, isResumable, standingOf } from "../../core/run/run-standing.ts";
import type { RunStanding, StandingFacts } from "../../core/run/run-standing.ts";
import type { Parts } from "../../engine/parts.ts";
import type { Order } from "../../ports/requests.ts";
import { completingStages } from "./completing-stages.ts";

/** A run as a person sees it, told from its journal and its lease at this moment. */
export interface Stood {
  readonly run: RunSummary;
  readonly standing: RunStanding;
  /** Would `resume` take it up now? */
  readonly resumable: boolean;
  readonly priority: number;
  /** Who holds it; null: nobody. */
  readonly holder: (Pick<Lease["owner"], "label" | "pid" | "host"> & Pick<Lease, "takenAt" | "heartbeatAt">) | null;
  /** Its turn among those who wait for a place, from 1; null: it does not. */
  readonly turn: number | null;
  readonly order: Order | null;
}

export interface Loops {
  /** When the look began. */
  readonly at: string;
  /** How many may be at work at once; null: as many as want to. */
  readonly limit: number | null;
  readonly atWork: number;
  /** At work first, then in the order of the queue, then the others; each the newest first. */
  readonly loops: readonly Stood[];
}

export async function readLoops(
  parts: Parts,
  params: { readonly runs: () => Promise<readonly RunSummary[]>; readonly limit: number | null },
): Promise<Loops> {
  const at = new Date(parts.clock.now()).toISOString();
  const loops = await standAll(parts, params.runs);
  return {
    at,
    limit: params.limit,
    atWork: loops.filter(({ standing }) => isAtWork(standing)).length,
    loops: loops.toSorted((a, b) => rank(a) - rank(b) || (a.turn ?? 0) - (b.turn ?? 0)),
  };
}

/** In the order given. The runs are read after who holds them: one that came to its end in between has ended, and does not look crashed. */
export async function standAll(parts: Parts, read: () => Promise<readonly RunSummary[]>): Promise<readonly Stood[]> {
  const holders = await readHolders(parts);
  const runs = await read();
  const now = parts.clock.now();
  const stood = await Promise.all(runs.map((run) => standOne(parts, run, holders.get(run.id) ?? null, now)));
  const queue = stood
    .flatMap((one) => {
      const lease = holders.get(one.run.id)?.lease;
      return one.standing.kind === "queued" && lease !== undefined ? [{ lease, priority: one.priority }] : [];
    })
    .toSorted(inTurn)
    .map(({ lease }) => lease.run);
  return stood.map((one) => ({ ...one, turn: one.standing.kind === "queued" ? queue.indexOf(one.run.id) + 1 : null }));
}

type Holder = NonNullable<StandingFacts["holder"]>;

/** Whoever let go and ended between the two looks is no holder that died: the leases must be the same before and after. */
async function readHolders(parts: Parts): Promise<ReadonlyMap<string, Holder>> {
  let leases = await parts.store.listLeases();
  for (;;) {
    const holders = new Map(leases.map((lease) => [lease.run, holderOf(parts, lease)]));
    const after = await parts.store.listLeases();
    if (signatureOf(leases) === signatureOf(after)) return holders;
    leases = after;
  }
}

function signatureOf(leases: readonly Lease[]): string {
  return leases.map(({ run, epoch }) => `${run} ${epoch}`).join("\n");
}

async function standOne(parts: Parts, run: RunSummary, holder: Holder | null, now: number): Promise<Stood> {
  const ended = run.state.kind === "done" || run.state.kind === "fatal";
  const order = ended ? null : ((await parts.requests?.orderFor(run.id)) ?? null);
  const standing = standingOf({
    state: run.state,
    manual: isManual(run),
    stage: run.latest?.stage ?? null,
    completing: completingStages(run.workflow),
    holder,
    order,
    now,
  });
  const kept = await parts.store.getMeta(priorityKey(run.id));
  return {
    run,
    standing,
    resumable: isResumable(standing),
    priority: kept === undefined ? PRIORITIES.normal : readPriority(kept),
    holder: holder === null ? null : briefOf(holder.lease),
    turn: null,
    order,
  };
}

function holderOf(parts: Parts, lease: Lease): Holder {
  const liveness = parts.liveness(lease.owner);
  return { lease, liveness, suspended: liveness === "alive" && parts.suspended?.(lease.owner) === true };
}

function isManual({ workflow, latest }: RunSummary): boolean {
  return workflow === "manual" || latest?.stage === "none";
}

function briefOf({ owner, takenAt, heartbeatAt }: Lease): NonNullable<Stood["holder"]> {
  const { label, pid, host } = owner;
  return { label, pid, host, takenAt, heartbeatAt };
}

function rank({ standing }: Stood): number {
  if (isAtWork(standing) || standing.kind === "elsewhere") return 0;
  if (standing.kind === "queued") return 1;
  return ENDED.has(standing.kind) ? 3 : 2;
}

const ENDED: ReadonlySet<RunStanding["kind"]> = new Set(["completed", "failed", "aborted", "limit_reached"]);

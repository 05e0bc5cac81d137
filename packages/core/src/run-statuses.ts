// Lists runs with their status: their leases, the liveness of the holders, pending signals, the queue for slots, undone pull requests, and
// which of them are removed.

import type { CoreAdapters, HalfRemovedRun } from "./adapters.ts";
import { submissionKey } from "./dispatch.ts";
import { type Json, type TypeOf, flag, isJsonObject, object, optional, parseJsonAs, text } from "./json.ts";
import { type Lease, PRIORITIES, inTurn, priorityKey, readPriority } from "./lease.ts";
import { type RunSummary, isEnded, parseAddress } from "./run.ts";
import { type StopSignal, stopSignalIn } from "./signal.ts";
import { type Holder, type RunStatus, type StatusFacts, isResumable, statusOf } from "./status.ts";
import type { Store } from "./store.ts";

/** A run with its status at the time of reading. */
export interface RunWithStatus {
  readonly run: RunSummary;
  readonly status: RunStatus;
  /** Whether `resume` would continue the run now. */
  readonly resumable: boolean;
  readonly priority: number;
  /** It has not ended, and was submitted: the workers of a queue execute it. */
  readonly submitted: boolean;
}

/** What the status of a run depends on besides its journal. */
export type StatusAdapters = Pick<CoreAdapters, "store" | "clock" | "liveness" | "suspended">;

/** Whether the run's stage comes after its workflow's main work. */
export type IsFinishing = (run: RunSummary) => boolean;

/**
 * Keeps the given order. Reads the runs after their leases: a run that ends in between then counts as ended, not as
 * crashed.
 */
export async function readStatuses(
  adapters: StatusAdapters,
  read: () => Promise<readonly RunSummary[]>,
  isFinishing: IsFinishing,
): Promise<readonly RunWithStatus[]> {
  const holders = await readHolders(adapters);
  const runs = await read();
  const signals = await adapters.store.listSignals();
  const now = adapters.clock.now();
  const leaseNow = holders.size === 0 ? now : await adapters.store.now();
  const found = await Promise.all(
    runs.map((run) => {
      const signal = stopSignalIn(signals.filter((one) => one.run === run.id));
      const holder = holders.get(run.id) ?? null;
      return readOne(adapters, { run, holder, finishing: isFinishing(run), signal, now, leaseNow });
    }),
  );
  if (!found.some(({ status }) => waitsForSlot(status))) return found;
  const queue = await readQueue(adapters, holders);
  return found.map((one) =>
    waitsForSlot(one.status) ? { ...one, status: { ...one.status, position: queue.indexOf(one.run.id) + 1 } } : one,
  );
}

function waitsForSlot(
  status: RunStatus,
): status is Extract<RunStatus, { readonly kind: "queued"; readonly holder: Holder }> {
  return status.kind === "queued" && status.holder !== null;
}

/** Ids of all runs of the store that wait for a slot, the next one first. */
async function readQueue(
  adapters: StatusAdapters,
  holders: ReadonlyMap<string, LeaseHolder>,
): Promise<readonly string[]> {
  const waiting = [...holders.values()].filter(
    ({ lease, liveness }) => lease.slot === "waiting" && liveness === "alive",
  );
  const queue = await Promise.all(
    waiting.map(async ({ lease }) => ({ lease, priority: await priorityOf(adapters, lease.run) })),
  );
  return queue.toSorted(inTurn).map(({ lease }) => lease.run);
}

async function priorityOf({ store }: StatusAdapters, run: string): Promise<number> {
  const kept = await store.getMeta(priorityKey(run));
  return kept === undefined ? PRIORITIES.normal : readPriority(kept);
}

type LeaseHolder = NonNullable<StatusFacts["holder"]>;

/**
 * A holder that released its lease and exited between the two reads did not crash. So the leases must be equal before
 * and after.
 */
async function readHolders(adapters: StatusAdapters): Promise<ReadonlyMap<string, LeaseHolder>> {
  let leases = await adapters.store.listLeases();
  for (;;) {
    const holders = new Map(leases.map((lease) => [lease.run, leaseHolder(adapters, lease)]));
    const after = await adapters.store.listLeases();
    if (signatureOf(leases) === signatureOf(after)) return holders;
    leases = after;
  }
}

function signatureOf(leases: readonly Lease[]): string {
  return leases.map(({ run, epoch }) => `${run} ${epoch}`).join("\n");
}

function leaseHolder(adapters: StatusAdapters, lease: Lease): LeaseHolder {
  const liveness = adapters.liveness(lease.owner);
  return { lease, liveness, suspended: liveness === "alive" && adapters.suspended?.(lease.owner) === true };
}

async function readOne(
  adapters: StatusAdapters,
  params: {
    readonly run: RunSummary;
    readonly holder: LeaseHolder | null;
    readonly finishing: boolean;
    readonly signal: StopSignal | null;
    readonly now: number;
    readonly leaseNow: number;
  },
): Promise<RunWithStatus> {
  const { run, ...facts } = params;
  const stage = run.latest?.stage ?? null;
  const isHalfFork = run.forkedFrom !== null && stage === null;
  const manual = (run.workflow === "manual" && !isHalfFork) || stage === "none";
  const submitted = !isEnded(run.state) && ((await adapters.store.getMeta(submissionKey(run.id))) ?? "") !== "";
  const status = statusOf({ ...facts, state: run.state, manual, stage, submitted });
  return { run, status, resumable: isResumable(status), priority: await priorityOf(adapters, run.id), submitted };
}

/**
 * Whether every effect with this pull request as its receipt was undone: it may have been opened again. A fork holds the
 * pull request of its parent, which may have undone it before or after the fork.
 */
export async function isRequestUndone(
  store: Pick<Store, "getRun" | "listEffects">,
  run: string,
  { url }: { readonly url: string },
): Promise<boolean> {
  const urlOf = (receipt: Json): Json | undefined => (isJsonObject(receipt) ? receipt["url"] : undefined);
  for (let id: string | null = run; id !== null;) {
    const opened = (await store.listEffects(id)).filter(
      ({ state }) => "receipt" in state && urlOf(state.receipt) === url,
    );
    if (opened.length > 0) return opened.every(({ state }) => state.kind === "undone");
    const parent: string | undefined = (await store.getRun(id))?.forkedFrom?.id;
    id = parent === undefined ? null : parseAddress(parent).run;
  }
  return false;
}

/** What stays of a removed run, besides its journal and its effects. */
const TOMBSTONE = object({
  removedAt: text,
  by: text,
  /** True until everything is removed: the run is half removed. */
  unfinished: optional(flag),
});
type RunTombstone = TypeOf<typeof TOMBSTONE>;
/** Set once a run was removed, so that a store without removed runs needs no look at each run. */
export const ANY_REMOVED = "runs.removed";

export async function readRunTombstone(store: Pick<Store, "getMeta">, run: string): Promise<RunTombstone | undefined> {
  const stored = await store.getMeta(tombstoneKey(run));
  return stored === undefined ? undefined : parseJsonAs(TOMBSTONE, stored);
}

/** The store without the removed runs in its list: they are only tombstones. */
export function hideRemoved(store: Store): Store {
  return {
    ...store,
    async listRuns({ limit, ...query } = {}) {
      if ((await store.getMeta(ANY_REMOVED)) === undefined)
        return await store.listRuns(limit === undefined ? query : { ...query, limit });
      const runs = await store.listRuns(query);
      const marks = await Promise.all(runs.map(({ id }) => store.getMeta(tombstoneKey(id))));
      return runs.filter((_, at) => marks[at] === undefined).slice(0, limit);
    },
  };
}

/** `store`: with the removed runs in its list. */
export async function listHalfRemoved(store: Pick<Store, "getMeta" | "listRuns">): Promise<readonly HalfRemovedRun[]> {
  if ((await store.getMeta(ANY_REMOVED)) === undefined) return [];
  const found = await Promise.all(
    (await store.listRuns()).map(async ({ id }) => ({ run: id, tombstone: await readRunTombstone(store, id) })),
  );
  return found.flatMap(({ run, tombstone }) =>
    tombstone?.unfinished === true ? [{ run, removedAt: tombstone.removedAt, by: tombstone.by }] : [],
  );
}

export function tombstoneKey(run: string): string {
  return `run.removed.${run}`;
}

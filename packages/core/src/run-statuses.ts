// Reads the status of runs: their leases, the liveness of the holders, pending signals, the queue for slots, undone pull requests.

import type { CoreAdapters } from "./adapters.ts";
import { type Json, isJsonObject } from "./json.ts";
import { type Lease, PRIORITIES, inTurn, priorityKey, readPriority } from "./lease.ts";
import { type RunSummary, parseAddress } from "./run.ts";
import { type StopSignal, stopSignalIn } from "./signal.ts";
import { type RunStatus, type StatusFacts, isResumable, statusOf } from "./status.ts";
import type { Store } from "./store.ts";

/** A run with its status at the time of reading. */
export interface RunWithStatus {
  readonly run: RunSummary;
  readonly status: RunStatus;
  /** Whether `resume` would continue the run now. */
  readonly resumable: boolean;
  readonly priority: number;
}

/** Whether the run's stage comes after its workflow's main work. */
export type IsFinishing = (run: RunSummary) => boolean;

/**
 * Keeps the given order. Reads the runs after their leases: a run that ends in between then counts as ended, not as
 * crashed.
 */
export async function readStatuses(
  adapters: CoreAdapters,
  read: () => Promise<readonly RunSummary[]>,
  isFinishing: IsFinishing,
): Promise<readonly RunWithStatus[]> {
  const holders = await readHolders(adapters);
  const runs = await read();
  const signals = await adapters.store.listSignals();
  const now = adapters.clock.now();
  const found = await Promise.all(
    runs.map((run) => {
      const signal = stopSignalIn(signals.filter((one) => one.run === run.id));
      return readOne(adapters, { run, holder: holders.get(run.id) ?? null, finishing: isFinishing(run), signal, now });
    }),
  );
  if (!found.some(({ status }) => status.kind === "queued")) return found;
  const queue = await readQueue(adapters, holders);
  return found.map((one) =>
    one.status.kind === "queued" ? { ...one, status: { ...one.status, position: queue.indexOf(one.run.id) + 1 } } : one,
  );
}

/** Ids of all queued runs of the store, the next one first. */
async function readQueue(
  adapters: CoreAdapters,
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

async function priorityOf({ store }: CoreAdapters, run: string): Promise<number> {
  const kept = await store.getMeta(priorityKey(run));
  return kept === undefined ? PRIORITIES.normal : readPriority(kept);
}

type LeaseHolder = NonNullable<StatusFacts["holder"]>;

/**
 * A holder that released its lease and exited between the two reads did not crash. So the leases must be equal before
 * and after.
 */
async function readHolders(adapters: CoreAdapters): Promise<ReadonlyMap<string, LeaseHolder>> {
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

function leaseHolder(adapters: CoreAdapters, lease: Lease): LeaseHolder {
  const liveness = adapters.liveness(lease.owner);
  return { lease, liveness, suspended: liveness === "alive" && adapters.suspended?.(lease.owner) === true };
}

async function readOne(
  adapters: CoreAdapters,
  params: {
    readonly run: RunSummary;
    readonly holder: LeaseHolder | null;
    readonly finishing: boolean;
    readonly signal: StopSignal | null;
    readonly now: number;
  },
): Promise<RunWithStatus> {
  const { run, ...facts } = params;
  const stage = run.latest?.stage ?? null;
  const manual = run.workflow === "manual" || stage === "none";
  const status = statusOf({ ...facts, state: run.state, manual, stage });
  return { run, status, resumable: isResumable(status), priority: await priorityOf(adapters, run.id) };
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

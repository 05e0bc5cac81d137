// Leases and slots: pure rules for who may write a run, when a lease can be taken over, and which queued run works next.
import type { ProcessIdentity, ProcessLiveness } from "@holdfast/platform/identity";

/** The exclusive right to write a run. Every write includes the epoch, and the transaction rejects a stale epoch. */
export interface Lease {
  readonly run: string;
  readonly epoch: number;
  readonly owner: LeaseOwner;
  readonly takenAt: string;
  readonly heartbeatAt: string;
  /** For a run under the concurrency limit: working, or queued. Absent: the run does not count against the limit. */
  readonly slot?: "working" | "waiting";
}

/** Identifies the owner: alive or dead, and the same process or a reused pid. */
export interface LeaseOwner extends ProcessIdentity {
  /** Random, one per store handle, so two handles in one process are two owners. */
  readonly token: string;
  /** Text for messages: "holdfast run issue-42". */
  readonly label: string;
}

export type OwnerLiveness = ProcessLiveness;

export type LeasePlan =
  | { readonly kind: "held_by_us"; readonly lease: Lease }
  | { readonly kind: "refuse"; readonly lease: Lease; readonly liveness: OwnerLiveness }
  | { readonly kind: "take"; readonly epoch: number; readonly from: Lease | null };

export const DEFAULT_STALE_AFTER_MS = 60_000;

/**
 * A live lease is never taken over, unless a user decides it with `over`. A dead one is taken at once, one of unknown liveness only when its
 * heartbeat is stale.
 */
export function planLease(params: {
  /** Epoch of the run's newest lease, held or not. 0: there was none. */
  readonly epoch: number;
  readonly held: Lease | null;
  readonly token: string;
  readonly liveness: OwnerLiveness;
  readonly now: number;
  readonly staleAfterMs: number;
  /** Epoch of the lease that the user has decided to take from its owner, alive or not. Any other held lease is refused. */
  readonly over?: number | undefined;
}): LeasePlan {
  const { held, epoch } = params;
  if (held === null) return { kind: "take", epoch: epoch + 1, from: null };
  if (held.owner.token === params.token) return { kind: "held_by_us", lease: held };
  if (params.over !== undefined)
    return held.epoch === params.over
      ? { kind: "take", epoch: epoch + 1, from: held }
      : { kind: "refuse", lease: held, liveness: params.liveness };
  // A heartbeat from the future comes from a wrong clock and proves as little as an old one. If the owner is alive
  // after all, the epoch fences its writes.
  const stale = !(Math.abs(params.now - Date.parse(held.heartbeatAt)) <= params.staleAfterMs);
  const free = params.liveness === "dead" || (params.liveness === "unknown" && stale);
  return free
    ? { kind: "take", epoch: epoch + 1, from: held }
    : { kind: "refuse", lease: held, liveness: params.liveness };
}

/** A run that works or is queued, as the store shows it at one moment. */
export interface SlotLease {
  readonly lease: Lease;
  readonly liveness: OwnerLiveness;
  readonly priority: number;
}

type SlotPlan =
  | { readonly kind: "work" }
  | { readonly kind: "full"; readonly working: readonly SlotLease[]; readonly ahead: readonly SlotLease[] };

/**
 * Decides whether one more run may work. A dead owner's slot is free at once, one of unknown liveness when its
 * heartbeat is stale. Free slots go to queued runs by priority, then by age. A run that is not queued comes after them.
 */
export function planSlot(params: {
  /** Maximum number of working runs. null: no limit. */
  readonly limit: number | null;
  readonly run: string;
  readonly priority: number;
  /** ISO 8601 time since which it is queued. */
  readonly since: string;
  /** Leases of other runs that work or are queued. */
  readonly others: readonly SlotLease[];
  readonly now: number;
  readonly staleAfterMs: number;
}): SlotPlan {
  const { limit, now, staleAfterMs } = params;
  const others = params.others.filter(({ lease }) => lease.run !== params.run);
  const fresh = ({ lease }: SlotLease): boolean => Math.abs(now - Date.parse(lease.heartbeatAt)) <= staleAfterMs;
  const working = others.filter(
    (one) => one.lease.slot === "working" && (one.liveness === "alive" || (one.liveness === "unknown" && fresh(one))),
  );
  // A suspended process must not block the queue, so only queued runs with a fresh heartbeat count.
  const ahead = others
    .filter((one) => one.lease.slot === "waiting" && one.liveness !== "dead" && fresh(one) && isAhead(one, params))
    .toSorted(inTurn);
  if (limit === null || working.length + ahead.length < limit) return { kind: "work" };
  return { kind: "full", working, ahead };
}

/** Order of the queue: priority, then age, then run id. */
export function inTurn(
  a: { readonly priority: number; readonly lease: Pick<Lease, "takenAt" | "run"> },
  b: { readonly priority: number; readonly lease: Pick<Lease, "takenAt" | "run"> },
): number {
  const age = Date.parse(a.lease.takenAt) - Date.parse(b.lease.takenAt);
  return b.priority - a.priority || age || (a.lease.run < b.lease.run ? -1 : 1);
}

function isAhead(
  one: SlotLease,
  us: { readonly run: string; readonly priority: number; readonly since: string },
): boolean {
  return inTurn(one, { priority: us.priority, lease: { takenAt: us.since, run: us.run } }) < 0;
}

/** Interval of a lease holder's heartbeat. */
export const HEARTBEAT_MS = 10_000;

/** After three missed heartbeats the holder hangs or is suspended. */
export const SILENT_AFTER_MS = 35_000;

/** A higher number comes first. Users write words, or numbers for finer steps. */
export const PRIORITIES = { low: -10, normal: 0, high: 10 } as const;

const LIMIT = 100;

/** undefined: neither one of the words nor an integer from -100 to 100. */
export function parsePriority(text: string): number | undefined {
  if (Object.hasOwn(PRIORITIES, text)) return PRIORITIES[text as keyof typeof PRIORITIES];
  return /^-?\d{1,3}$/.test(text) && Math.abs(Number(text)) <= LIMIT ? Number(text) : undefined;
}

export function priorityText(priority: number): string {
  const word = Object.entries(PRIORITIES).find(([, value]) => value === priority)?.[0];
  return word ?? String(priority);
}

/** Key of a run's priority in the store's metadata, which can change while another process holds the run. */
export function priorityKey(run: string): string {
  return `priority/${run}`;
}

/** Reads the stored priority. A missing or invalid value counts as normal. */
export function readPriority(value: string | undefined): number {
  return (value === undefined ? undefined : parsePriority(value)) ?? PRIORITIES.normal;
}

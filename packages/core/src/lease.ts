import type { ProcessIdentity, ProcessLiveness } from "@holdfast/platform/identity";

/** The exclusive right to write a run. Every write carries the epoch; a stale epoch is refused inside the transaction. */
export interface Lease {
  readonly run: string;
  readonly epoch: number;
  readonly owner: LeaseOwner;
  readonly takenAt: string;
  readonly heartbeatAt: string;
  /** Of a run that counts among those whose number is limited: at work, or in the queue for it. Absent: it does not count. */
  readonly slot?: "working" | "waiting";
}

/** Enough to tell a live owner from a dead one, and a re-used pid from the same process. */
export interface LeaseOwner extends ProcessIdentity {
  /** Random, one a store handle: two handles in one process are two owners. */
  readonly token: string;
  /** What to show a person: "holdfast run issue-42". */
  readonly label: string;
}

export type OwnerLiveness = ProcessLiveness;

export type LeasePlan =
  | { readonly kind: "held_by_us"; readonly lease: Lease }
  | { readonly kind: "refuse"; readonly lease: Lease; readonly liveness: OwnerLiveness }
  | { readonly kind: "take"; readonly epoch: number; readonly from: Lease | null };

export const DEFAULT_STALE_AFTER_MS = 60_000;

/** A live lease is never stolen, a dead one is taken at once, and one that cannot be told only after its heartbeat went stale. */
export function planLease(params: {
  /** Of the newest lease of the run, held or not; 0 when there was none. */
  readonly epoch: number;
  readonly held: Lease | null;
  readonly token: string;
  readonly liveness: OwnerLiveness;
  readonly now: number;
  readonly staleAfterMs: number;
}): LeasePlan {
  const { held, epoch } = params;
  if (held === null) return { kind: "take", epoch: epoch + 1, from: null };
  if (held.owner.token === params.token) return { kind: "held_by_us", lease: held };
  // A heartbeat from the future was written under a wrong clock: it proves life no more than an old one does. Whoever was alive
  // after all is fenced off by the epoch.
  const stale = !(Math.abs(params.now - Date.parse(held.heartbeatAt)) <= params.staleAfterMs);
  const free = params.liveness === "dead" || (params.liveness === "unknown" && stale);
  return free
    ? { kind: "take", epoch: epoch + 1, from: held }
    : { kind: "refuse", lease: held, liveness: params.liveness };
}

/** A run that works, or waits to, as the store has it at one moment. */
export interface SlotLease {
  readonly lease: Lease;
  readonly liveness: OwnerLiveness;
  readonly priority: number;
}

type SlotPlan =
  | { readonly kind: "work" }
  | { readonly kind: "full"; readonly working: readonly SlotLease[]; readonly ahead: readonly SlotLease[] };

/**
 * May one more run begin to work? A place belongs to whoever lives: that of a dead owner is free at once, that of one who cannot be seen when
 * its heartbeat is stale. Free places go to those who wait by priority, then by age; whoever does not wait stands behind them.
 */
export function planSlot(params: {
  /** null: as many as want to. */
  readonly limit: number | null;
  readonly run: string;
  readonly priority: number;
  /** Since when it waits. */
  readonly since: string;
  /** Of other runs, at work or waiting. */
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
  // One that was stopped in its sleep must not keep the others waiting, so it must be seen to wait.
  const ahead = others
    .filter((one) => one.lease.slot === "waiting" && one.liveness !== "dead" && fresh(one) && isAhead(one, params))
    .toSorted(inTurn);
  if (limit === null || working.length + ahead.length < limit) return { kind: "work" };
  return { kind: "full", working, ahead };
}

/** The order in which those who wait get their turn. */
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

/** How often whoever holds a run says that it lives. */
export const HEARTBEAT_MS = 10_000;

/** Three beats missed: it hangs, or was stopped. */
export const SILENT_AFTER_MS = 35_000;

/** Whoever has more comes first. Words for people, numbers for those who need more of them. */
export const PRIORITIES = { low: -10, normal: 0, high: 10 } as const;

const LIMIT = 100;

/** undefined: neither one of the words nor a whole number from -100 to 100. */
export function parsePriority(text: string): number | undefined {
  if (Object.hasOwn(PRIORITIES, text)) return PRIORITIES[text as keyof typeof PRIORITIES];
  return /^-?\d{1,3}$/.test(text) && Math.abs(Number(text)) <= LIMIT ? Number(text) : undefined;
}

export function priorityText(priority: number): string {
  const word = Object.entries(PRIORITIES).find(([, value]) => value === priority)?.[0];
  return word ?? String(priority);
}

/** A fact of the store, so that it can be changed while somebody else holds the run. */
export function priorityKey(run: string): string {
  return `priority/${run}`;
}

/** What the store has under that key; anything odd counts as normal. */
export function readPriority(value: string | undefined): number {
  return (value === undefined ? undefined : parsePriority(value)) ?? PRIORITIES.normal;
}

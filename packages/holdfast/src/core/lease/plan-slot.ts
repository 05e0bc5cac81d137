import type { Lease, OwnerLiveness } from "./lease.ts";

/** A run that works, or waits to, as the store has it at one moment. */
export interface SlotLease {
  readonly lease: Lease;
  readonly liveness: OwnerLiveness;
  readonly priority: number;
}

export type SlotPlan =
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

import type { Lease, OwnerLiveness } from "./lease.ts";

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

import type { Lease } from "./lease.ts";
import type { LeasePlan } from "./plan-lease.ts";
import { planSlot } from "./plan-slot.ts";
import type { SlotLease } from "./plan-slot.ts";
import { loopLimit } from "../refusals.ts";

/** The place that comes with a lease; LOOP_LIMIT where there is none and nobody wants to wait. */
export function chooseSlot(params: {
  readonly run: string;
  readonly plan: Exclude<LeasePlan, { readonly kind: "refuse" }>;
  readonly wish: { readonly limit: number | null; readonly wait: boolean };
  readonly priority: number;
  readonly others: readonly SlotLease[];
  readonly now: number;
  readonly staleAfterMs: number;
}): NonNullable<Lease["slot"]> {
  const { run, plan, wish, now } = params;
  const held = plan.kind === "held_by_us" ? plan.lease : null;
  // Whoever has a place keeps it, whatever the limit is now.
  if (held?.slot === "working") return "working";
  const since = held?.slot === "waiting" ? held.takenAt : new Date(now).toISOString();
  const slot = planSlot({ ...params, limit: wish.limit, since });
  if (slot.kind === "work") return "working";
  if (wish.wait) return "waiting";
  throw loopLimit({ run, limit: wish.limit, working: slot.working, ahead: slot.ahead });
}

import type { NewEntry } from "../../core/journal/journal.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { outcomeOf } from "./follow-orders.ts";
import { abortedEntry } from "../conduct/interrupt.ts";
import type { RunOutcome } from "../outcome.ts";
import type { Parts } from "../parts.ts";

/**
 * What somebody said shall become of a run that nobody carries at this moment, done under our lease; null: nothing was said. A run that waits for
 * something keeps its reason when it is paused, so there the order itself stands, until somebody resumes it.
 */
export async function obeyOrder(parts: Parts, lease: Lease, run: RunSummary): Promise<RunOutcome | null> {
  const order = await parts.requests?.orderFor(run.id);
  if (order === undefined || order === null) return null;
  const outcome = outcomeOf(order);
  const { state } = run;
  if (order.kind === "pause" && state.kind === "parked" && state.on !== "pause") return outcome;
  if (state.kind === "open" || state.kind === "parked")
    await parts.store.commit({ lease, entries: [entryOf(outcome)] });
  await parts.requests?.settle(order);
  if (outcome.kind === "fatal") await voidOrders(parts, run.id);
  return outcome;
}

/** Of a run that is over nothing is left to do; and should it be taken up again, none of it was said of that. */
export async function voidOrders({ requests }: Parts, run: string): Promise<void> {
  for (const _kind of ["abort", "pause"]) {
    const order = (await requests?.orderFor(run)) ?? null;
    if (order !== null) await requests?.settle(order);
  }
}

function entryOf(outcome: ReturnType<typeof outcomeOf>): NewEntry {
  if (outcome.kind === "fatal") return abortedEntry(outcome.reason);
  const { on, reason, until } = outcome;
  return { kind: "run.parked", body: { on, reason, until } };
}

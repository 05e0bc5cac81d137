import { Stopped } from "../../engine/halt.ts";
import { holdSlot } from "../../engine/lease/hold-slot.ts";
import type { SlotRequest } from "../../engine/lease/hold-slot.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { WorkReport } from "./start-run.ts";

/**
 * The work, with a place held from its first act to its last. What was ordered of a run while it waited is its outcome. `waited`: there was no place at first,
 * so what was seen before may not be so any more.
 */
export async function withSlot(
  parts: WorkParts,
  run: string,
  slot: SlotRequest | null,
  work: (how: { readonly waited: boolean }) => Promise<WorkReport>,
): Promise<WorkReport> {
  if (slot === null) return await work({ waited: false });
  let waited = false;
  const onWaiting: SlotRequest["onWaiting"] = (atWork) => {
    waited = true;
    slot.onWaiting(atWork);
  };
  const held = await holdSlot(parts, run, { ...slot, onWaiting }).catch((error: unknown) => {
    if (error instanceof Stopped) return error;
    throw error;
  });
  if (held instanceof Stopped) return { run, outcome: held.outcome };
  await using _place = held;
  return await work({ waited });
}

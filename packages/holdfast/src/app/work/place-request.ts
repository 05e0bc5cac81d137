import type { LoopSettings } from "../../core/lease/loop-settings.ts";
import type { SlotRequest } from "../../engine/lease/hold-slot.ts";

/** How a run of this workflow comes to a place among those at work; null: it is none of those whose number is limited. */
export function placeRequest(params: {
  readonly workflow: string;
  readonly loops: LoopSettings;
  readonly place: PlaceParams | undefined;
  readonly signal: AbortSignal;
  readonly tell: (text: string) => void;
}): SlotRequest | null {
  const { loops, signal, tell } = params;
  if (!loops.workflows.includes(params.workflow)) return null;
  const { whenFull = "refuse", limit = loops.max } = params.place ?? {};
  return {
    limit,
    whenFull,
    signal,
    onWaiting: (atWork) => tell(`Waiting for a place: ${atWork.join(", ")} are at work, and ${limit ?? 0} may be`),
    onOver: (atWork) => tell(`Over the limit of ${limit ?? 0} loops: ${atWork.join(", ")} are at work too`),
  };
}

export interface PlaceParams {
  /** "refuse" (default): LOOP_LIMIT. "wait": until there is one. "force": over the limit, said aloud. */
  readonly whenFull?: "refuse" | "wait" | "force";
  /** Another limit than the configured one. */
  readonly limit?: number | null;
}

import { counterOf } from "../../core/position/counters.ts";
import type { Position } from "../../core/position/position.ts";
import type { ImplState } from "./state.ts";

/**
 * The checkpoint whose files a run that gives up goes back to. Only when reviews plateaued or regressed: the last one failed and was no
 * better than one before it. A run that ends for another reason keeps its newest files.
 */
export function bestToReturnTo(
  position: Pick<Position, "best" | "streaks">,
  state: Pick<ImplState, "reviews">,
): Position["best"] {
  const last = state.reviews.at(-1);
  if (last === undefined || last.pass || counterOf(position.streaks, "review") < 2) return null;
  return position.best;
}

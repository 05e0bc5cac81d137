import { HoldfastError } from "../../core/error.ts";
import type { RalphEvent } from "../../core/ralph/event.ts";
import { planUnits } from "../../core/ralph/units.ts";
import type { Unit } from "../../core/ralph/units.ts";
import type { StageContext } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { LoopOptions } from "./options.ts";
import type { LoopState } from "./state.ts";

/** What every stage of ralph works with. */
export interface LoopWork {
  readonly options: LoopOptions;
  readonly parts: WorkParts;
}

export type LoopContext = StageContext<LoopState>;

/** One event, once in this visit whatever happens. */
export async function tell(context: LoopContext, event: RalphEvent): Promise<void> {
  await context.record(event.kind, event);
}

/** The piece of work at hand. INTERNAL when all are done: no stage that works comes after that. */
export function unitAtHand({ options }: LoopWork, { state }: LoopContext): Unit {
  const unit = planUnits(options)[state.unit];
  if (unit !== undefined) return unit;
  throw new HoldfastError({ code: "INTERNAL", message: "A loop went on although all of its work is done" });
}

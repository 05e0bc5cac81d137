import { isAtOrPast } from "../../core/crunch/phase.ts";
import type { CrunchState } from "../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import type { CrunchOptions } from "./options.ts";
import type { CrunchEvent, CrunchStage } from "./workflow-shape.ts";

/** How a phase that succeeded ends: it leads on, or it was as far as the run was to go. */
export function conclude(
  { target }: Pick<CrunchOptions, "target">,
  params: {
    readonly stage: CrunchStage;
    readonly event: CrunchEvent;
    readonly reason: string;
    /** Absent: what the next prompt is told stays as it is. */
    readonly feedback?: string | null;
  },
): StageResult<CrunchState> {
  const { stage, event, reason, feedback } = params;
  const told = feedback === undefined ? {} : { feedback };
  if (!isAtOrPast(stage, target)) return { event, reason, ...told };
  // Nothing is left that a run could do by itself: that it stops there needs no word.
  const stopped = stage === "ready-to-merge" ? reason : `Stopped at ${stage}, its target. ${reason}`;
  return { event: "at_target", reason: stopped, ...told };
}

export function fail(reason: string): StageResult<CrunchState> {
  return { event: "fatal", reason };
}

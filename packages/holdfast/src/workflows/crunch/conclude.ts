import { isAtOrPast } from "../../core/crunch/phase.ts";
import type { CrunchState } from "../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../core/workflow.ts";
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
  return { event: "at_target", reason: `Stopped at ${stage}, its target. ${reason}`, ...told };
}

export function fail(reason: string): StageResult<CrunchState> {
  return { event: "fatal", reason };
}

import type { Freshness } from "../../core/resume/freshness.ts";
import { planReopening } from "../../core/ralph/reopen.ts";
import type { LoopOptions } from "./options.ts";
import { parseLoopState } from "./state.ts";

/** A loop takes what changed outside as every run does; taken up by force, it is let go on. */
export function ralphFreshness(options: LoopOptions): Freshness {
  return {
    isOwn: () => false,
    judge: () => null,
    relocate: () => null,
    reopen({ position, values }) {
      const reopening = planReopening({ position, state: parseLoopState(values), options });
      if (reopening === null) return null;
      const { begins, why } = reopening;
      const enters = begins === null ? null : { stage: "iterate", iteration: begins };
      return { values: { ...reopening.values }, enters, why };
    },
  };
}

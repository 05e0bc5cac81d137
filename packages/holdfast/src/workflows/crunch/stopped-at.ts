import { parseCrunchState } from "../../core/crunch/crunch-state.ts";
import type { JsonObject } from "../../core/json.ts";
import { isCrunchStage } from "./workflow-shape.ts";
import type { CrunchStage } from "./workflow-shape.ts";

/** The last phase that a run has carried out; null: none yet. */
export function stoppedAt(values: JsonObject): CrunchStage | null {
  const phase = parseCrunchState(values).phases.at(-1)?.phase;
  return phase !== undefined && isCrunchStage(phase) ? phase : null;
}

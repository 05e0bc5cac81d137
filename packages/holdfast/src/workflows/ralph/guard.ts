import type { JsonObject } from "../../core/json.ts";
import type { Position } from "../../core/position/position.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import type { LoopOptions } from "./options.ts";
import { RALPH_SHAPE } from "./workflow-shape.ts";

/**
 * An iteration is counted when it is entered, in the commit that enters it: killed in the middle, it is the same one that is done again. One beyond the
 * limit is not entered, whichever stage led to it.
 */
export function ralphGuard<S extends JsonObject>({ maxIterations }: Pick<LoopOptions, "maxIterations">) {
  return (given: { readonly position: Position; readonly result: StageResult<S> }) => {
    const { position, result } = given;
    if (RALPH_SHAPE.transitions[position.stage]?.[result.event] !== "iterate") return given;
    if (position.iteration < maxIterations)
      return { position: { ...position, iteration: position.iteration + 1 }, result };
    const reason = `${maxIterations} iterations, which is the limit: ${result.reason}`;
    return { position, result: { ...result, event: "limit_reached", reason } };
  };
}

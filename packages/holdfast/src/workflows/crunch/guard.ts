import { bump, counterOf } from "../../core/position/counters.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Position } from "../../core/position/position.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import type { CrunchOptions } from "./options.ts";
import { CRUNCH_SHAPE } from "./workflow-shape.ts";

/**
 * Counts and stops what does not converge. `attempts` has how often each phase was entered, and under `e2e-failures` how often the end-to-end
 * check sent the work back. Both live in the position, so a resume sets neither back.
 */
export function crunchGuard<S extends JsonObject>({ limits }: Pick<CrunchOptions, "limits">) {
  return (given: { readonly position: Position; readonly result: StageResult<S> }) => {
    const { result } = given;
    const { attempts } = given.position;
    const counted = isReturn(result.event) ? bump(attempts, "e2e-failures") : attempts;
    const failures = counterOf(counted, "e2e-failures");
    if (isReturn(result.event) && failures > limits.e2eFailures)
      return fatal(
        given,
        `The work was sent back ${failures} times, and ${limits.e2eFailures} are allowed: ${result.reason}`,
      );
    const next = CRUNCH_SHAPE.transitions[given.position.stage]?.[result.event];
    if (next === undefined || Object.hasOwn(CRUNCH_SHAPE.ends, next))
      return { position: { ...given.position, attempts: counted }, result };
    return {
      position: { ...given.position, attempts: bump(counted, next), iteration: round(given.position, next) },
      result,
    };
  };
}

function isReturn(event: string): boolean {
  return event === "e2e_fail" || event === "push_refused";
}

function round({ iteration }: Position, next: string): number {
  return next === "implementing" ? iteration + 1 : iteration;
}

function fatal<S extends JsonObject>(
  { position, result }: { readonly position: Position; readonly result: StageResult<S> },
  reason: string,
) {
  return { position, result: { ...result, event: "fatal", reason } };
}

import type { Position } from "../position/position.ts";
import type { RalphEvent } from "./event.ts";
import type { RalphOptions } from "./options.ts";
import { reduceRalph } from "./reduce.ts";
import type { RalphState } from "./state.ts";
import { planUnits } from "./units.ts";

export interface Reopening {
  /** What is other of the state from now on. */
  readonly values: Pick<RalphState, "tries" | "interventions">;
  /** The iteration to begin; null: it goes on in the stage where it stands. */
  readonly begins: number | null;
  readonly why: string;
}

/**
 * Pure. Whoever takes a loop up by force after its end says "go on", as an answer does to a loop that asks: what it was stopped for is not held
 * against it again, so it iterates at least once more. null: it goes on as it stood, because nothing was held against it, all of its work is done, or
 * its own limit stands in the way.
 */
export function planReopening(params: {
  readonly position: Pick<Position, "stage" | "iteration">;
  readonly state: RalphState;
  readonly options: RalphOptions;
}): Reopening | null {
  const { state, options } = params;
  const { stage, iteration } = params.position;
  if (iteration === 0 || state.unit >= planUnits(options).length || !STAGES.has(stage)) return null;
  const reflected = (state.iterations.at(-1)?.number ?? 0) === iteration;
  const begins = stage === "fatal" || (stage === "reflect" && reflected) ? iteration + (reflected ? 1 : 0) : null;
  if (begins !== null && begins > options.maxIterations) return null;
  // An iteration that is done anew has nothing against it yet.
  const at = stage === "iterate" || begins === iteration ? iteration - 1 : iteration;
  if (at === 0 && begins === null) return null;
  const { tries, interventions } = at === 0 ? state : reduceRalph(state, goOn(at));
  const why =
    at === 0
      ? "The first iteration is done anew."
      : `What came up to iteration ${at} is not held against the loop again: somebody lets it go on.`;
  return { values: { tries, interventions }, begins, why };
}

const STAGES: ReadonlySet<string> = new Set(["iterate", "verify", "reflect", "fatal"]);

function goOn(at: number): RalphEvent {
  return { kind: "intervened", intervention: { kind: "answered", at, answer: "go-on" } };
}

import type { Adapters } from "@holdfast/core/adapters";
import type { Freshness } from "@holdfast/core/findings";
import type { JsonObject } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import { type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { beginStage } from "./begin.ts";
import { failStage, publishStage, rollbackStage } from "./finish.ts";
import { iterateStage } from "./iterate.ts";
import { type LoopOptions, type RalphOptions, planUnits } from "./options.ts";
import { reflectStage } from "./reflect.ts";
import {
  type LoopContext,
  type LoopState,
  type RalphDependencies,
  type RalphEvent,
  type RalphState,
  initialLoopState,
  parseLoopState,
  reduceLoop,
  reduceRalph,
} from "./state.ts";
import { verifyStage } from "./verify.ts";

type Stage = (work: RalphDependencies, context: LoopContext) => ReturnType<StageFunction<LoopState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  begin: beginStage,
  iterate: iterateStage,
  verify: verifyStage,
  reflect: reflectStage,
  rollback: rollbackStage,
  publish: publishStage,
  fatal: failStage,
  limit: failStage,
};

/** The workflow that goes round until its criterion holds. */
export function ralphWorkflow(options: LoopOptions, parts: Adapters): Workflow<LoopState> {
  const work: RalphDependencies = { options, parts };
  return defineWorkflow<LoopState>({
    ...RALPH_SHAPE,
    stages: Object.fromEntries(
      Object.entries(STAGES).map(([name, stage]) => [name, (context: LoopContext) => stage(work, context)]),
    ),
    initialState: () => initialLoopState,
    parseState: parseLoopState,
    reduce: reduceLoop,
    guard: ralphGuard(options),
    freshness: ralphFreshness(options),
    // Far beyond what the limit allows: whoever comes here goes in circles that no guard counts.
    maxVisits: 100 + 10 * options.maxIterations,
  });
}

const TRANSITIONS: TransitionTable = {
  begin: { begun: "iterate", criterion_pass: "done", fatal: "fatal" },
  iterate: { iterated: "verify", fatal: "fatal" },
  // Of what is verified the words "pass" and "fail" are read by whoever looks for a checkpoint to go back to.
  verify: { verify_pass: "reflect", verify_fail: "reflect", fatal: "fatal" },
  reflect: {
    again: "iterate",
    criterion_met: "publish",
    goes_back: "rollback",
    limit_reached: "limit",
    stuck: "fatal",
    fatal: "fatal",
  },
  rollback: { went_back: "iterate", limit_reached: "limit", fatal: "fatal" },
  publish: { published: "done", push_refused: "iterate", limit_reached: "limit", fatal: "fatal" },
};

/** The same whatever the options are: a run whose limit is raised follows the same machine. */
export const RALPH_SHAPE: WorkflowShape = {
  name: "ralph",
  version: 1,
  initial: "begin",
  stages: [...Object.keys(TRANSITIONS), "done", "fatal", "limit"],
  events: [...new Set(Object.values(TRANSITIONS).flatMap((row) => Object.keys(row)))],
  transitions: TRANSITIONS,
  // At its limit a loop has not done what it was asked for; what it is told to go on with is more iterations, not another begin.
  ends: { done: "done", fatal: "fatal", limit: "fatal" },
};

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

/** A loop takes what changed outside as every run does; taken up by force, it is let go on. */
function ralphFreshness(options: LoopOptions): Freshness {
  return {
    isOwn: () => false,
    judge: () => null,
    relocate: () => null,
    reopen({ position, values }) {
      const reopening = planForcedResume({ position, state: parseLoopState(values), options });
      if (reopening === null) return null;
      const { begins, why } = reopening;
      const enters = begins === null ? null : { stage: "iterate", iteration: begins };
      return { values: { ...reopening.values }, enters, why };
    },
  };
}

interface Reopening {
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
export function planForcedResume(params: {
  readonly position: Pick<Position, "stage" | "iteration">;
  readonly state: RalphState;
  readonly options: RalphOptions;
}): Reopening | null {
  const { state, options } = params;
  const { stage, iteration } = params.position;
  if (iteration === 0 || state.unit >= planUnits(options).length || !REOPENED_STAGES.has(stage)) return null;
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

const REOPENED_STAGES: ReadonlySet<string> = new Set(["iterate", "verify", "reflect", "fatal"]);

function goOn(at: number): RalphEvent {
  return { kind: "intervened", intervention: { kind: "answered", at, answer: "go-on" } };
}

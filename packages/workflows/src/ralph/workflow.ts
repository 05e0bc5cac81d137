// The ralph workflow: its stages, transition table, iteration guard and forced resume.

import type { Adapters } from "@holdfast/core/adapters";
import type { Freshness } from "@holdfast/core/findings";
import { sha256 } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import { canonicalJson } from "@holdfast/core/values";
import { type RunNaming, type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { beginStage } from "./begin.ts";
import { failStage, publishStage, rollbackStage } from "./finish.ts";
import { iterateStage } from "./iterate.ts";
import { type RalphOptions, makeLoopId, planUnits } from "./options.ts";
import { reflectStage } from "./reflect.ts";
import {
  type RalphContext,
  type RalphDependencies,
  type RalphEvent,
  type RalphState,
  initialRalphState,
  parseRalphState,
  reduceRalph,
  reduceRecorded,
} from "./state.ts";
import { verifyStage } from "./verify.ts";

type Stage = (work: RalphDependencies, context: RalphContext) => ReturnType<StageFunction<RalphState>>;

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

/** The workflow that repeats a task until its criterion passes. */
export function ralphWorkflow(options: RalphOptions, adapters: Adapters): Workflow<RalphState> {
  const work: RalphDependencies = { options, adapters };
  return defineWorkflow<RalphState>({
    ...RALPH_SHAPE,
    stages: Object.fromEntries(
      Object.entries(STAGES).map(([name, stage]) => [name, (context: RalphContext) => stage(work, context)]),
    ),
    initialState: () => initialRalphState,
    parseState: parseRalphState,
    reduce: reduceRecorded,
    guard: ralphGuard(options),
    freshness: ralphFreshness(options),
    naming: loopNaming(options),
    // Far beyond what the limit allows: a run that gets here is in a loop that no guard counts.
    maxStageAttempts: 100 + 10 * options.maxIterations,
  });
}

/** A task's id is derived from the task and its criterion, so that starting the same loop again finds the same run. */
function loopNaming({ loopId, until, pullRequest }: RalphOptions): RunNaming {
  return {
    id: loopId ?? undefined,
    task({ task, count }) {
      const words = canonicalJson([task, until.map(({ command }) => command), count]);
      return makeLoopId({ task, hex: sha256(`holdfast-loop-1\n${words}`).slice(0, 8) });
    },
    fromCheckout: !pullRequest,
  };
}

const TRANSITIONS: TransitionTable = {
  begin: { begun: "iterate", criterion_pass: "done", fatal: "fatal" },
  iterate: { iterated: "verify", fatal: "fatal" },
  // The search for a checkpoint to roll back to reads "pass" and "fail" in these event names.
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

/** The table does not depend on the options, so that a run whose limit is raised uses the same table. */
export const RALPH_SHAPE: WorkflowShape = {
  name: "ralph",
  version: 1,
  initial: "begin",
  stages: [...Object.keys(TRANSITIONS), "done", "fatal", "limit"],
  events: [...new Set(Object.values(TRANSITIONS).flatMap((row) => Object.keys(row)))],
  transitions: TRANSITIONS,
  // A loop at its limit has failed; a resume gives it more iterations and does not begin again.
  ends: { done: "done", fatal: "failed", limit: "failed" },
};

/**
 * Counts an iteration in the commit that starts it: after a crash, the same iteration runs again. Never starts an
 * iteration beyond the limit, whichever stage leads to it.
 */
export function ralphGuard<S extends object>({ maxIterations }: Pick<RalphOptions, "maxIterations">) {
  return (given: { readonly position: Position; readonly result: StageResult<S> }) => {
    const { position, result } = given;
    if (RALPH_SHAPE.transitions[position.stage]?.[result.event] !== "iterate") return given;
    if (position.iteration < maxIterations)
      return { position: { ...position, iteration: position.iteration + 1 }, result };
    const reason = `${maxIterations} iterations, which is the limit: ${result.reason}`;
    return { position, result: { ...result, event: "limit_reached", reason } };
  };
}

/** A loop handles outside changes like every run. A forced resume lets it continue. */
function ralphFreshness(options: RalphOptions): Freshness {
  return {
    isOwn: () => false,
    judge: () => null,
    relocate: () => null,
    reopen({ position, values }) {
      const reopening = planForcedResume({ position, state: parseRalphState(values), options });
      if (reopening === null) return null;
      const { begins, why } = reopening;
      const enters = begins === null ? null : { stage: "iterate", iteration: begins };
      return { values: { ...reopening.values }, enters, why };
    },
    failedHint({ run, stage }) {
      if (stage === "limit") return `Allow more: \`holdfast resume ${run} --max N\`.`;
      if (stage !== "fatal") return null;
      return `To continue anyway: \`holdfast resume ${run}@latest --force\`. To go back first, name an older checkpoint of \`holdfast list ${run}\` instead of latest. If its iterations are used up too, add \`--max N\`.`;
    },
  };
}

interface Reopening {
  /** The changed part of the state. */
  readonly values: Pick<RalphState, "tries" | "interventions">;
  /** The iteration to start; null: the run continues in its present stage. */
  readonly begins: number | null;
  readonly why: string;
}

/**
 * Plans a forced resume after the end; pure. What stopped the loop does not stop it again, so it runs at least one more
 * iteration. Returns null if the run continues as it was: nothing stopped it, all units are done, or its own limit
 * applies.
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
  // An iteration that runs again has no findings yet.
  const at = stage === "iterate" || begins === iteration ? iteration - 1 : iteration;
  if (at === 0 && begins === null) return null;
  const { tries, interventions } = at === 0 ? state : reduceRalph(state, letContinue(at));
  const why =
    at === 0
      ? "The first iteration runs again."
      : `Findings up to iteration ${at} do not stop the loop again: the user lets it continue.`;
  return { values: { tries, interventions }, begins, why };
}

const REOPENED_STAGES: ReadonlySet<string> = new Set(["iterate", "verify", "reflect", "fatal"]);

function letContinue(at: number): RalphEvent {
  return { kind: "intervened", intervention: { kind: "answered", at, answer: "continue" } };
}

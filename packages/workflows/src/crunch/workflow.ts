// The crunch workflow: its stages, and its guard against endless loops.

import type { Adapters } from "@holdfast/core/adapters";
import { type Position, bump, counterOf } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import { type RunNaming, type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { CRUNCH_SHAPE, type CrunchOptions } from "./options.ts";
import type { CrunchContext, CrunchDependencies } from "./phase-steps.ts";
import { branchName, crunchFreshness } from "./phases.ts";
import {
  docsStage,
  doneStage,
  e2eStage,
  enrichStage,
  implementingStage,
  readyStage,
  readyToMergeStage,
} from "./stages.ts";
import { type CrunchState, initialCrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "./state.ts";

type Stage = (work: CrunchDependencies, context: CrunchContext) => ReturnType<StageFunction<CrunchState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  enrich: enrichStage,
  ready: readyStage,
  implementing: implementingStage,
  e2e: e2eStage,
  docs: docsStage,
  "ready-to-merge": readyToMergeStage,
  done: doneStage,
};

/** The workflow that takes an issue through its phases, most of them with a team of agents on a graph. */
export function crunchWorkflow(options: CrunchOptions, adapters: Adapters): Workflow<CrunchState> {
  const work: CrunchDependencies = { options, adapters };
  return defineWorkflow<CrunchState>({
    ...CRUNCH_SHAPE,
    stages: Object.fromEntries(
      Object.entries(STAGES).map(([name, stage]) => [name, (context: CrunchContext) => stage(work, context)]),
    ),
    initialState: () => initialCrunchState,
    parseState: parseCrunchState,
    reduce: (state, event) => reduceCrunch(state, parseCrunchEvent(event)),
    guard: crunchGuard(options),
    freshness: crunchFreshness,
    naming: { branch: crunchBranch(options) },
    // Far beyond what the limits allow: a run that gets here is in a loop that no guard counts.
    maxStageAttempts: 50 + 5 * options.limits.e2eFailures,
  });
}

/**
 * `{fix|feature}/issue-{n}-{slug}`. A second run of an issue gets another name, because the first branch may still
 * exist.
 */
function crunchBranch({ type }: CrunchOptions): NonNullable<RunNaming["branch"]> {
  return ({ run, issue }) => {
    if (issue === null) return null;
    const labels = type === null ? issue.labels : [`type:${type}`];
    const again = /^issue-\d+-(\d+)$/.exec(run)?.[1];
    return `${branchName({ ...issue, labels })}${again === undefined ? "" : `-${again}`}`;
  };
}

/**
 * Ends a run that does not converge. `attempts` counts how often each phase started and, as `e2e-failures`, how often
 * the work was sent back. Both are part of the position, so a resume resets neither.
 */
export function crunchGuard<S extends object>({ limits }: Pick<CrunchOptions, "limits">) {
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

function fatal<S extends object>(
  { position, result }: { readonly position: Position; readonly result: StageResult<S> },
  reason: string,
) {
  return { position, result: { ...result, event: "fatal", reason } };
}

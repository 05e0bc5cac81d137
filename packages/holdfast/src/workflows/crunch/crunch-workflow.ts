import { crunchFreshness } from "../../core/crunch/crunch-freshness.ts";
import { initialCrunchState, parseCrunchState } from "../../core/crunch/crunch-state.ts";
import type { CrunchState } from "../../core/crunch/crunch-state.ts";
import { parseCrunchEvent } from "../../core/crunch/crunch-event-shape.ts";
import { reduceCrunch } from "../../core/crunch/reduce-crunch.ts";
import { defineWorkflow } from "../../engine/define-workflow.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { StageFunction } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { crunchGuard } from "./guard.ts";
import type { CrunchOptions } from "./options.ts";
import { docsStage } from "./stages/docs.ts";
import { doneStage } from "./stages/done.ts";
import { e2eStage } from "./stages/e2e.ts";
import { enrichStage } from "./stages/enrich.ts";
import { implementingStage } from "./stages/implementing.ts";
import { readyStage } from "./stages/ready.ts";
import { readyToMergeStage } from "./stages/ready-to-merge.ts";
import type { CrunchContext, CrunchWork } from "./work.ts";
import { CRUNCH_SHAPE } from "./workflow-shape.ts";

type Stage = (work: CrunchWork, context: CrunchContext) => ReturnType<StageFunction<CrunchState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  enrich: enrichStage,
  ready: readyStage,
  implementing: implementingStage,
  e2e: e2eStage,
  docs: docsStage,
  "ready-to-merge": readyToMergeStage,
  done: doneStage,
};

/** The workflow that carries an issue through its phases, each with a team of agents on a graph. */
export function crunchWorkflow(options: CrunchOptions, parts: WorkParts): Workflow<CrunchState> {
  const work: CrunchWork = { options, parts };
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
    // Far beyond what the limits allow: whoever comes here goes in circles that no guard counts.
    maxVisits: 50 + 5 * options.limits.e2eFailures,
  });
}

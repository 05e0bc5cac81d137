import { defineWorkflow } from "../../engine/define-workflow.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { StageFunction } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { ralphFreshness } from "./freshness.ts";
import { ralphGuard } from "./guard.ts";
import type { LoopOptions } from "./options.ts";
import { beginStage } from "./stages/begin.ts";
import { giveUpStage } from "./stages/give-up.ts";
import { iterateStage } from "./stages/iterate.ts";
import { publishStage } from "./stages/publish.ts";
import { reflectStage } from "./stages/reflect.ts";
import { rollbackStage } from "./stages/rollback.ts";
import { verifyStage } from "./stages/verify.ts";
import { initialLoopState, parseLoopState, reduceLoop } from "./state.ts";
import type { LoopState } from "./state.ts";
import type { LoopContext, LoopWork } from "./work.ts";
import { RALPH_SHAPE } from "./workflow-shape.ts";

type Stage = (work: LoopWork, context: LoopContext) => ReturnType<StageFunction<LoopState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  begin: beginStage,
  iterate: iterateStage,
  verify: verifyStage,
  reflect: reflectStage,
  rollback: rollbackStage,
  publish: publishStage,
  fatal: giveUpStage,
  limit: giveUpStage,
};

/** The workflow that goes round until its criterion holds. */
export function ralphWorkflow(options: LoopOptions, parts: WorkParts): Workflow<LoopState> {
  const work: LoopWork = { options, parts };
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

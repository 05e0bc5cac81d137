import type { Workflow } from "../../engine/definition.ts";
import { defineWorkflow } from "../../engine/define-workflow.ts";
import type { StageFunction } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { implGuard } from "./guard.ts";
import { writeMirror } from "./mirror.ts";
import type { ImplOptions } from "./options.ts";
import { ciStage } from "./stages/ci.ts";
import { fatalStage } from "./stages/fatal.ts";
import { implStage } from "./stages/impl.ts";
import { prStage } from "./stages/pr.ts";
import { rebaseStage } from "./stages/rebase.ts";
import { reviewStage } from "./stages/review.ts";
import { setupStage } from "./stages/setup.ts";
import { simplifyStage } from "./stages/simplify.ts";
import { initialImplState, parseImplState } from "./state.ts";
import type { ImplState } from "./state.ts";
import type { ImplContext, ImplWork } from "./work.ts";
import { implShape } from "./workflow-shape.ts";

type Stage = (work: ImplWork, context: ImplContext) => ReturnType<StageFunction<ImplState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  setup: setupStage,
  impl: implStage,
  review: reviewStage,
  simplify: simplifyStage,
  pr: prStage,
  ci: ciStage,
  rebase: rebaseStage,
  fatal: fatalStage,
  done: async (_, { position }) => ({ event: "done", reason: position.reason ?? "Done" }),
};

/** The workflow that carries an issue to a pull request, in the shape that its options give it. */
export function implWorkflow(options: ImplOptions, parts: WorkParts): Workflow<ImplState> {
  const shape = implShape(options);
  const work: ImplWork = { options, parts };
  const used = Object.entries(STAGES).filter(([name]) => shape.stages.includes(name));
  return defineWorkflow<ImplState>({
    ...shape,
    stages: Object.fromEntries(used.map(([name, stage]) => [name, mirrored(work, stage)])),
    initialState: () => initialImplState,
    parseState: parseImplState,
    guard: implGuard(options),
    // Far beyond what the limits allow: whoever comes here goes in circles that no guard counts.
    maxVisits: 100 + 20 * options.maxIterations,
  });
}

/** The mirror is written when a stage is entered: that is when the one before has been saved. */
function mirrored(work: ImplWork, stage: Stage): StageFunction<ImplState> {
  return async (context) => {
    await writeMirror(work, context);
    return await stage(work, context);
  };
}

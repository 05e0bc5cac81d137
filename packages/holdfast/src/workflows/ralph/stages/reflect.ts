import { decideNext } from "../../../core/ralph/decide.ts";
import type { NextMove } from "../../../core/ralph/decide.ts";
import { planReflection } from "../../../core/ralph/plan-reflection.ts";
import { reduceRalph } from "../../../core/ralph/reduce.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { iterationText } from "../iteration-text.ts";
import type { LoopState } from "../state.ts";
import { handOverText } from "../hand-over.ts";
import { tell } from "../work.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** What the iteration taught, and what follows from it. The checkpoint at its end is the iteration's. */
export async function reflectStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const { options } = work;
  // Through a step, the decision too: run again (it was killed, or asked a person), both stand, whatever was recorded or raised meanwhile.
  const { reflected, move } = await context.step("reflection", () => {
    const { state, position } = context;
    const event = planReflection({ options, state, budget: position.budget });
    const { milliseconds } = position.budget.spent;
    return { reflected: event, move: decideNext({ options, state: reduceRalph(state, event), milliseconds }) };
  });
  await tell(context, reflected);
  const { quality } = reflected.iteration;
  const result = await follow(context, move);
  return { ...result, trigger: "iteration", ...(quality === null ? {} : { score: quality }) };
}

async function follow(context: LoopContext, move: NextMove): Promise<StageResult<LoopState>> {
  const { state } = context;
  const last = state.iterations.at(-1);
  const came = last === undefined ? "" : iterationText(last);
  switch (move.kind) {
    case "iterate":
      return { event: "again", reason: `${move.reason}. ${came}` };
    case "done":
      return { event: "criterion_met", reason: move.reason };
    case "limit":
      return { event: "limit_reached", reason: `${move.reason}. ${handOverText(state)}` };
    case "exhausted":
      return { event: "stuck", reason: `${move.reason}. ${handOverText(state)}` };
    case "stuck":
      return { event: "stuck", reason: `${move.reason}. ${handOverText(state)}` };
    case "rollback":
      return { event: "goes_back", reason: move.reason };
    case "ask":
      return await ask(context, move);
  }
}

/** Parks until a person answers; what they say counts as an intervention, so that the same iterations are not held against the loop again. */
async function ask(
  context: LoopContext,
  move: Extract<NextMove, { readonly kind: "ask" }>,
): Promise<StageResult<LoopState>> {
  const { state, position } = context;
  const back = state.best !== null && state.best.iteration !== state.iterations.at(-1)?.number ? ["rollback"] : [];
  const best = back.length === 0 ? "" : ` The best so far is iteration ${state.best?.iteration}.`;
  const answer = await context.decide({
    name: "stuck",
    question: `${move.reason}.${best} Go on, ${back.length === 0 ? "" : "go back to the best and on from there, "}or stop?`,
    options: ["go-on", ...back, "stop"],
  });
  if (answer === "stop")
    return { event: "stuck", reason: `Stopped by a person: ${move.reason}. ${handOverText(state)}` };
  if (answer === "rollback")
    return { event: "goes_back", reason: `${move.reason}; a person sends it back to the best iteration` };
  await tell(context, { kind: "intervened", intervention: { kind: "answered", at: position.iteration, answer } });
  return { event: "again", reason: `A person lets it go on: ${move.reason}` };
}

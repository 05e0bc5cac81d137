import { HoldfastError } from "../error.ts";
import { nearest } from "../nearest.ts";
import type { Position } from "./position.ts";
import type { StageResult, WorkflowShape } from "./workflow.ts";

/**
 * The position after a stage concluded this. Counters are not touched: the guard has counted already. The visit is new,
 * so nothing that was finished in the old one answers in the next.
 */
export function transition(shape: WorkflowShape, position: Position, result: StageResult<unknown>): Position {
  const stage = nextStage(shape, position.stage, result.event);
  return {
    ...position,
    stage,
    score: result.score ?? position.score,
    feedback: result.feedback === undefined ? position.feedback : result.feedback,
    reason: result.reason,
    visit: { number: position.visit.number + 1, steps: {}, failures: {} },
  };
}

/** WORKFLOW_INVALID, in this order: an unknown stage, an unknown event, a pair that the table lacks. */
export function nextStage(shape: WorkflowShape, stage: string, event: string): string {
  if (!shape.stages.includes(stage)) throw unknown("stage", stage, shape, shape.stages);
  if (!shape.events.includes(event)) throw unknown("event", event, shape, shape.events);
  const row = Object.hasOwn(shape.transitions, stage) ? shape.transitions[stage] : undefined;
  const next = row !== undefined && Object.hasOwn(row, event) ? row[event] : undefined;
  if (next !== undefined) return next;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Workflow ${shape.name} has no transition for ${stage}+${event}`,
    hint: `Add the pair to its table, or let ${stage} end with one of ${Object.keys(row ?? {}).join(", ") || "its events"}.`,
    data: { stage, event },
  });
}

function unknown(what: string, name: string, shape: WorkflowShape, known: readonly string[]): HoldfastError {
  const [guess] = nearest(name, known);
  return new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Workflow ${shape.name} has no ${what} ${JSON.stringify(name)}`,
    hint: guess === undefined ? `It has ${known.join(", ")}.` : `Did you mean ${guess}?`,
    data: { [what]: name },
  });
}

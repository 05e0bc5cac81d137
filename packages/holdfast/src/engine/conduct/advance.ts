import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { NewEntry, StageEnded, StageEntered } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import { betterOf } from "../../core/position/score.ts";
import { transition } from "../../core/position/transition.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import { capture } from "../../core/values/index.ts";
import { sweepAsides } from "../asides/asides.ts";
import type { Workflow } from "../definition.ts";
import type { RunOutcome } from "../outcome.ts";
import type { RunSession } from "./run-session.ts";

/**
 * A transition is one commit: the stage's end, the next one's beginning, files, position and values, and the end of the
 * run where the next stage is one. Returns the outcome when the run is over.
 */
export async function advance<S extends JsonObject>(
  writer: RunSession,
  workflow: Workflow<S>,
  concluded: StageResult<S>,
): Promise<RunOutcome | null> {
  const { shape } = workflow;
  const before = writer.position;
  const guarded = workflow.guard({ position: before, result: concluded, options: writer.config.inputs });
  const { result } = guarded;
  const after = transition(shape, guarded.position, result);
  const state = capturedState(result, writer.values);
  const ended: StageEnded = {
    visit: before.visit.number,
    stage: before.stage,
    event: result.event,
    reason: result.reason,
    next: after.stage,
    score: result.score ?? null,
  };
  const entered: StageEntered = { visit: after.visit.number, stage: after.stage, iteration: after.iteration };
  const outcome = Object.hasOwn(workflow.stages, after.stage) ? null : outcomeOf(workflow, after.stage, result.reason);
  await writer.save({
    trigger: result.trigger ?? (after.iteration === before.iteration ? "stage" : "iteration"),
    prepare: () => [
      { kind: "stage.ended", body: ended },
      { kind: "stage.entered", body: entered },
      ...(outcome === null ? [] : [endEntry(outcome)]),
    ],
    change: (planes, { sequence }) => {
      const best = betterOf(after.best, { sequence, score: result.score ?? null });
      return {
        ...withValues(planes, state),
        position: { ...after, best, budget: planes.position.budget },
        inputs: { ...planes.inputs, ...result.inputs },
      };
    },
  });
  await sweepAsides(writer, { ended: outcome !== null });
  const { stage, event, reason, score } = ended;
  writer.tell({ kind: "stage_ended", stage, event, reason, next: after.stage, iteration: before.iteration, score });
  if (outcome !== null) writer.tell({ kind: "ended", outcome: outcome.kind, reason: outcome.reason });
  return outcome;
}

/** An end with a function of its own: it has run, and the reason for which the run came here stands. */
export async function finishRun<S extends JsonObject>(
  writer: RunSession,
  workflow: Workflow<S>,
  concluded: StageResult<S> | null,
): Promise<RunOutcome> {
  const { stage, reason, visit } = writer.state.position;
  const outcome = outcomeOf(workflow, stage, reason ?? concluded?.reason ?? stage);
  const state = capturedState(concluded, writer.values);
  await writer.save({
    trigger: "stage",
    change: (planes) => withValues(planes, state),
    prepare: () => {
      const ended: StageEnded = {
        visit: visit.number,
        stage,
        event: concluded?.event ?? outcome.kind,
        reason: concluded?.reason ?? outcome.reason,
        next: null,
        score: concluded?.score ?? null,
      };
      return [{ kind: "stage.ended", body: ended }, endEntry(outcome)];
    },
  });
  await sweepAsides(writer, { ended: true });
  writer.tell({ kind: "ended", outcome: outcome.kind, reason: outcome.reason });
  return outcome;
}

/** Taken at once: the stage may still hold its object. undefined: the stage leaves its values as they are. */
function capturedState<S extends JsonObject>(
  concluded: StageResult<S> | null,
  values: JsonObject,
): JsonObject | undefined {
  // The state is an object, and a capture has the shape of its source.
  return concluded?.state === undefined ? undefined : (capture(concluded.state, values) as S);
}

function withValues(planes: Planes, values: JsonObject | undefined): Planes {
  return values === undefined ? planes : { ...planes, context: { ...planes.context, values } };
}

type Ended = Extract<RunOutcome, { readonly kind: "done" | "fatal" }>;

function outcomeOf<S extends JsonObject>(workflow: Workflow<S>, stage: string, reason: string): Ended {
  return { kind: workflow.shape.ends[stage] === "done" ? "done" : "fatal", reason };
}

function endEntry(outcome: Ended): NewEntry {
  return {
    kind: "run.ended",
    body: outcome.kind === "done" ? { outcome: "done" } : { outcome: "fatal", reason: outcome.reason },
  };
}

import { graphMoveText } from "../../core/graph/graph-words.ts";
import type { LoopPicture, ProgressEvent } from "../../app.ts";
import type { GraphPicture } from "../../core/graph/graph-picture.ts";
import type { Amounts } from "../../core/position/position.ts";
import { actionText } from "./action-text.ts";

/** What the live view shows of a run, folded from what the runner tells. */
export interface Picture {
  readonly run: string;
  readonly stage: string;
  readonly iteration: number;
  /** Milliseconds since the epoch at which the stage was entered; null before the first event. */
  readonly since: number | null;
  /** In the order in which the reviews ended. */
  readonly scores: readonly number[];
  readonly spent: Amounts | null;
  readonly step: string | null;
  /** The agent's last action, else the last thing that happened. */
  readonly last: string;
  readonly checkpoint: number | null;
  readonly graph: GraphPicture | null;
  readonly loop: LoopPicture | null;
}

export function emptyPicture(run: string): Picture {
  return {
    run,
    stage: "",
    iteration: 0,
    since: null,
    scores: [],
    spent: null,
    step: null,
    last: "",
    checkpoint: null,
    graph: null,
    loop: null,
  };
}

export function foldEvent(picture: Picture, event: ProgressEvent): Picture {
  const now = { ...picture, run: event.run };
  switch (event.kind) {
    case "started":
    case "stage_entered":
      return {
        ...now,
        stage: event.stage,
        iteration: event.iteration,
        since: Date.parse(event.at),
        step: null,
        last: event.kind === "started" ? "" : picture.last,
      };
    case "stage_ended":
      return {
        ...now,
        iteration: event.iteration,
        scores: event.score === null ? picture.scores : [...picture.scores, event.score],
        step: null,
        last: event.reason,
      };
    case "step_started":
      return { ...now, step: event.step };
    case "step_finished":
      return { ...now, step: picture.step === event.step ? null : picture.step };
    case "step_failed":
      return { ...now, last: `${event.step} failed: ${event.reason}` };
    case "agent": {
      const action = actionText(event.event);
      return action === null ? now : { ...now, step: event.step, last: action };
    }
    case "checkpoint":
      return { ...now, checkpoint: event.checkpoint.sequence };
    case "budget":
    case "note":
      return { ...now, last: event.text };
    case "graph_moved":
      return { ...now, last: event.events.map(graphMoveText).join(", ") };
    case "parked":
    case "ended":
      return { ...now, step: null, last: event.reason };
    case "effect":
    case "findings":
      return now;
  }
}

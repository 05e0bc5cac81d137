import type { Json, JsonObject } from "../../core/json.ts";
import type { Position } from "../../core/position.ts";
import type { HistoryEntry, ImplState } from "./state.ts";

/**
 * The run as the checkpoint file that other tools of this workflow read: version 1, or 2 in which a stage `simp` exists. A mirror for
 * readers; Holdfast itself never reads it back.
 */
export function seedCheckpoint(params: {
  readonly position: Pick<Position, "stage" | "iteration" | "feedback" | "score">;
  readonly state: ImplState;
  readonly worktree: string;
  readonly planFile: string | null;
  readonly simplify: boolean;
  readonly at: number;
}): JsonObject {
  const { position, state } = params;
  return {
    version: params.simplify ? 2 : 1,
    timestamp: seedTime(new Date(params.at).toISOString()),
    state: {
      issue_no: state.issue?.number ?? 0,
      current_stage: seedStage(position.stage),
      iteration: Math.max(1, position.iteration),
      worktree: params.worktree,
      plan_file: params.planFile,
      last_feedback: position.feedback ?? "",
      last_score: position.score ?? 0,
      history: state.history.filter((entry) => entry.stage !== "setup").map(seedHistory),
      pr_number: state.pullRequest === null ? null : String(state.pullRequest.number),
      pr_url: state.pullRequest?.url ?? null,
    },
  };
}

/** Stages that format does not know: before the work is at its beginning, and watching CI is part of the pull request. */
function seedStage(stage: string): string {
  switch (stage) {
    case "setup":
      return "impl";
    case "simplify":
      return "simp";
    case "ci":
      return "pr";
    default:
      return stage;
  }
}

function seedHistory(entry: HistoryEntry): Json {
  return {
    stage: entry.event === "parse_fail" ? "parse" : seedStage(entry.stage),
    iteration: entry.iteration,
    timestamp: seedTime(entry.timestamp),
    result: entry.result,
    score: entry.score,
    event: entry.event,
  };
}

/** UTC with its offset spelled out, as that format writes it. */
function seedTime(iso: string): string {
  return iso.replace(/Z$/, "+00:00");
}

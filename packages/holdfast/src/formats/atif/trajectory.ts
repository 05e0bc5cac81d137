import type { Json, JsonObject } from "../../core/json.ts";

/**
 * Agent Trajectory Interchange Format, version 1.7 (Harbor's RFC 0001), as far as it is written here. Fields that are not
 * there are left out, never null; readers refuse fields that they do not know, so ours stand in `extra`.
 */
export interface Trajectory {
  readonly schema_version: "ATIF-v1.7";
  /** Of the run: several documents may share it. */
  readonly session_id?: string;
  /** Of this document; embedded ones must have it, each its own. */
  readonly trajectory_id?: string;
  readonly agent: TrajectoryAgent;
  /** Numbered 1, 2, 3 … */
  readonly steps: readonly TrajectoryStep[];
  readonly notes?: string;
  readonly final_metrics?: FinalMetrics;
  readonly subagent_trajectories?: readonly Trajectory[];
  readonly extra?: JsonObject;
}

export interface TrajectoryAgent {
  readonly name: string;
  readonly version: string;
  readonly model_name?: string;
  readonly extra?: JsonObject;
}

export interface TrajectoryStep {
  readonly step_id: number;
  readonly timestamp?: string;
  readonly source: "system" | "user" | "agent";
  readonly message: string;
  /** From here to `metrics`: of agents only, but for the observation. */
  readonly model_name?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly observation?: { readonly results: readonly ObservationResult[] };
  readonly metrics?: StepMetrics;
  /** 0: no model was asked, the program did it. Then there are no metrics and no reasoning. */
  readonly llm_call_count?: number;
  readonly extra?: JsonObject;
}

export interface ToolCall {
  /** Unique within the trajectory. */
  readonly tool_call_id: string;
  readonly function_name: string;
  readonly arguments: JsonObject;
  readonly extra?: JsonObject;
}

export interface ObservationResult {
  /** Of a call in the same step. */
  readonly source_call_id?: string;
  readonly content?: string;
  /** By id for an embedded trajectory. */
  readonly subagent_trajectory_ref?: readonly { readonly trajectory_id: string; readonly session_id?: string }[];
  readonly extra?: JsonObject;
}

export interface StepMetrics {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly cached_tokens?: number;
  readonly cost_usd?: number;
  readonly extra?: JsonObject;
}

export interface FinalMetrics {
  readonly total_prompt_tokens?: number;
  readonly total_completion_tokens?: number;
  readonly total_cached_tokens?: number;
  readonly total_cost_usd?: number;
  readonly total_steps?: number;
}

export type UnnumberedStep = Omit<TrajectoryStep, "step_id">;

export function numbered(steps: readonly UnnumberedStep[]): readonly TrajectoryStep[] {
  return steps.map((step, index) => ({ step_id: index + 1, ...step }));
}

/** Text stays as it is; all else as JSON. */
export function contentOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

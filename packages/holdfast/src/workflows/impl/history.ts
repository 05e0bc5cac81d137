import type { Position } from "../../core/position/position.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import type { ImplHistoryEntry } from "../../core/impl-values.ts";
import type { ImplState } from "./state.ts";
import type { ImplEvent } from "./workflow-shape.ts";

/** Total, so that a new event cannot be forgotten. "retry": the run goes on, but this did not succeed. */
const RESULT_OF: Readonly<Record<ImplEvent, ImplHistoryEntry["result"]>> = {
  setup_done: "success",
  impl_done: "success",
  impl_not_done: "retry",
  parse_fail: "retry",
  review_pass: "success",
  review_fail: "retry",
  simp_pass: "success",
  simp_fail: "retry",
  pr_pass: "success",
  pr_fail_fixable: "retry",
  pr_fail_need_rebase: "retry",
  ci_pass: "success",
  ci_fail: "retry",
  ci_conflict: "retry",
  rebase_ok: "success",
  rebase_conflict: "failure",
  fatal: "failure",
};

export interface Conclusion {
  readonly event: ImplEvent;
  readonly reason: string;
  readonly state: ImplState;
  /** Absent: what the next prompt is told stays as it is. */
  readonly feedback?: string | null;
  readonly score?: number | null;
}

/** How a stage ends: its event with the state and one more line of history. */
export function conclude(
  context: { readonly position: Position; now(): number },
  { event, reason, state, feedback, score = null }: Conclusion,
): StageResult<ImplState> {
  const entry: ImplHistoryEntry = {
    stage: context.position.stage,
    iteration: context.position.iteration,
    timestamp: new Date(context.now()).toISOString(),
    result: RESULT_OF[event],
    event,
    reason,
    score,
  };
  return {
    event,
    reason,
    state: { ...state, history: [...state.history, entry] },
    ...(feedback === undefined ? {} : { feedback }),
    ...(score === null ? {} : { score }),
  };
}

/** A limit made the newest entry the last one: it says so, with the true reason. */
export function endHistory(state: ImplState, reason: string): ImplState {
  const last = state.history.at(-1);
  if (last === undefined) return state;
  return { ...state, history: [...state.history.slice(0, -1), { ...last, result: "failure", reason }] };
}

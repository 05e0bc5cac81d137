import type { GraphNode, NodeState } from "./graph.ts";
import type { GraphEvent } from "./graph-state.ts";

/** What each event makes of one node, whoever keeps the rest of the graph. */

export const FRESH: NodeState = Object.freeze({
  status: "pending",
  attempt: 0,
  startedAt: null,
  endedAt: null,
  result: null,
});

export function startedState(state: NodeState, at: string): NodeState {
  return { ...state, status: "running", attempt: state.attempt + 1, startedAt: at, endedAt: null, result: null };
}

export function failedState(
  node: GraphNode,
  state: NodeState,
  event: Extract<GraphEvent, { readonly kind: "fail" | "timeout" }>,
  aborted: boolean,
): NodeState {
  const timeouts = state.timeouts ?? 0;
  const late = event.kind === "timeout";
  // A start that ran out of time does not count as one that failed.
  const again = late ? timeouts === 0 : event.final !== true && state.attempt - timeouts <= node.retries;
  return {
    ...state,
    status: again && !aborted ? "pending" : "failed",
    endedAt: event.at,
    result: { error: late ? "timeout" : event.error },
    tries: (state.tries ?? 0) + 1,
    ...(late ? { timeouts: timeouts + 1 } : {}),
  };
}

/** A death is not its fault: started again, it is the same try, and finds what it had finished under the same names. */
export function recoveredState(
  node: GraphNode,
  state: NodeState,
  { known }: { readonly known?: boolean | undefined },
): NodeState {
  if (state.status === "queued") return { ...state, status: "pending" };
  if (!node.idempotent && known !== true) return { ...state, status: "unknown" };
  return { ...state, status: "pending", attempt: Math.max(0, state.attempt - 1) };
}

export function skippedState(
  state: NodeState,
  params: { readonly reason: string; readonly cause: string | null; readonly at: string },
): NodeState {
  const result = { skipped: params.reason, cause: params.cause };
  return { ...FRESH, status: "skipped", endedAt: params.at, result, ...triesOf(state) };
}

/** Pending afresh. What was unknown is a try that is over: the next one must not find the answers that were given about it. */
export function reopenedState(state: NodeState): NodeState {
  const tries = (state.tries ?? 0) + (state.status === "unknown" ? 1 : 0);
  return tries === 0 ? FRESH : { ...FRESH, tries };
}

function triesOf({ tries }: NodeState): { readonly tries?: number } {
  return tries === undefined ? {} : { tries };
}

export function causeOf(state: NodeState): string | null {
  const { result } = state;
  if (typeof result !== "object" || result === null || !("cause" in result)) return null;
  return typeof result["cause"] === "string" ? result["cause"] : null;
}

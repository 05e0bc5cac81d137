import type { Finding } from "../../../core/crunch/message.ts";
import type { Graph } from "../../../core/graph/graph.ts";
import { stateOf } from "../../../core/graph/graph-state.ts";
import { isJsonObject } from "../../../core/json.ts";
import type { Json } from "../../../core/json.ts";
import type { GraphEnd } from "../../../engine/graph/graph-work.ts";
import { abortIn, resultsIn } from "./node-result.ts";

export type PhaseEndPlan =
  /** `failed`: nodes that came to nothing, and may. */
  | { readonly kind: "ended"; readonly failed: readonly FailedNode[] }
  /** Somebody of the team, or a person, ended it for all. */
  | { readonly kind: "aborted"; readonly reason: string }
  | { readonly kind: "replay" }
  /** It does not do what it should: the work goes back. */
  | { readonly kind: "sent_back"; readonly reason: string; readonly detail: string }
  /** A person must say how it goes on; without those that failed, it may be. */
  | { readonly kind: "ask"; readonly question: string; readonly failed: readonly FailedNode[] };

export interface FailedNode {
  readonly node: string;
  readonly why: string;
}

/**
 * What the end of a graph means. A check that fails sends the work back, whatever it was. Elsewhere failed nodes are run again as often as the
 * limit allows; then those of little weight are left as they are, and anything else, a critical node or a whole batch above all, is for a person.
 */
export function planPhaseEnd(params: {
  readonly graph: Graph;
  readonly end: GraphEnd;
  /** Why a person ended it; null: nobody did. */
  readonly stopped: string | null;
  /** Does the phase judge the work of another? */
  readonly checks: boolean;
  /** How often the failed ones were run again. */
  readonly replays: number;
  readonly limit: number;
}): PhaseEndPlan {
  const { graph, end, checks } = params;
  const aborted = abortIn(graph) ?? params.stopped;
  if (aborted !== null) return { kind: "aborted", reason: aborted };
  const failed = failedNodes(graph);
  const grave = checks ? graveFindings(graph) : [];
  if (checks && (failed.length > 0 || grave.length > 0)) return sentBack(failed, grave);
  if (end.kind !== "failed") return { kind: "ended", failed: [] };
  const halted = end.abortedBy !== null || end.batch !== null;
  if (!halted && params.replays < params.limit) return { kind: "replay" };
  if (!halted && !failed.some(({ node }) => HEAVY.has(priorityOf(graph, node)))) return { kind: "ended", failed };
  const question = `${whatStopped(end)}: ${told(failed)}. Try it again, go on without it, or stop?`;
  return { kind: "ask", question, failed };
}

const HEAVY: ReadonlySet<string> = new Set(["critical", "high"]);

export const PHASE_ANSWERS = ["again", "go on", "stop"] as const;

function whatStopped({ abortedBy, batch }: Extract<GraphEnd, { readonly kind: "failed" }>): string {
  if (abortedBy !== null) return `${abortedBy} failed, and nothing can be done without it`;
  return batch === null ? "This failed" : `All of batch ${batch} failed`;
}

function told(failed: readonly FailedNode[]): string {
  return failed.map(({ node, why }) => `${node} (${why})`).join("; ");
}

function sentBack(failed: readonly FailedNode[], grave: readonly Finding[]): PhaseEndPlan {
  const reasons = [
    ...failed.map(({ node, why }) => `${node} failed: ${why}`),
    ...grave.map(({ severity, title, location }) => `${severity} ${title}${location === "" ? "" : ` (${location})`}`),
  ];
  const details = grave.map(({ title, description, recommendation }) =>
    [`${title}:`, description, recommendation].filter((part) => part !== "").join(" "),
  );
  return { kind: "sent_back", reason: reasons.join("; "), detail: [...reasons, ...details].join("\n") };
}

function failedNodes(graph: Graph): readonly FailedNode[] {
  return graph.nodes.flatMap(({ id }) => {
    const { status, result } = stateOf(graph, id);
    return status === "failed" ? [{ node: id, why: errorOf(result) }] : [];
  });
}

function errorOf(result: Json): string {
  const error = isJsonObject(result) ? (result["error"] ?? null) : result;
  return typeof error === "string" ? error : JSON.stringify(error);
}

function graveFindings(graph: Graph): readonly Finding[] {
  return resultsIn(graph).flatMap(({ result }) =>
    result.findings.filter(({ severity }) => severity === "CRITICAL" || severity === "HIGH"),
  );
}

function priorityOf(graph: Graph, id: string): string {
  return graph.nodes.find((node) => node.id === id)?.priority ?? "normal";
}

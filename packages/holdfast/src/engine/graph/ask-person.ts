import type { GraphEdge } from "../../core/graph/graph.ts";
import { approvalName, tryName } from "../../core/graph/graph-names.ts";
import type { GraphView } from "../../core/graph/graph-view.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { StageContext } from "../stage-context.ts";
import type { GraphWaiting } from "./graph-work.ts";
import { timeOf } from "./time-of.ts";

/** Asks for the first thing that a graph waits for; the run is parked until there is an answer. */
export async function askPerson<S extends JsonObject>(
  context: StageContext<S>,
  view: GraphView,
  { unknown, approvals }: GraphWaiting,
): Promise<readonly GraphEvent[]> {
  const at = timeOf(context);
  const [node] = unknown;
  if (node !== undefined) {
    const { agent, action } = view.node(node);
    const answer = await context.decide({
      name: outcomeName(view, node),
      question: `Node ${node} (${agent}: ${action}) was at work when the process ended, and must not be run twice. Did it happen?`,
      options: [HAPPENED, NOT_HAPPENED],
    });
    return [outcomeEvent(node, answer, at)];
  }
  // Of those that hold something back, the one that does so now.
  const edge = approvals.find(({ from }) => view.state(from).status === "complete") ?? approvals[0];
  if (edge?.type !== "approval") return [];
  const { from, to, by } = edge;
  const answer = await context.decide({
    name: approvalName(edge),
    question: `${from} is complete. May ${to} begin? (${by} approves)`,
    options: ["approve", "reject"],
  });
  return [approvalEvent(edge, by, answer, at)];
}

/** Answers that came while nobody worked on the run, for what still waits for them. */
export function answersGiven(view: GraphView, finished: ReadonlyMap<string, Json>, at: string): readonly GraphEvent[] {
  return view.waitingFor().unknown.flatMap((node) => {
    const answer = finished.get(outcomeName(view, node));
    return typeof answer === "string" ? [outcomeEvent(node, answer, at)] : [];
  });
}

const HAPPENED = "happened";
const NOT_HAPPENED = "did not happen";

function outcomeName(view: GraphView, node: string): string {
  return `${tryName(node, view.state(node))}/outcome`;
}

function outcomeEvent(node: string, answer: string, at: string): GraphEvent {
  return answer === HAPPENED
    ? { kind: "complete", node, at, result: { confirmed: HAPPENED } }
    : { kind: "retry", node, at };
}

function approvalEvent({ from, to }: GraphEdge, by: string, answer: string, at: string): GraphEvent {
  return answer === "approve"
    ? { kind: "approve", from, to, at }
    : { kind: "skip", node: to, at, reason: `${by} did not approve` };
}

import type { Recommendation } from "../../../core/crunch/conflict.ts";
import type { BroadcastPayload, Finding, ReplyStatus } from "../../../core/crunch/message.ts";
import type { AgentReply, ReplyEscalation } from "../../../core/crunch/reply.ts";
import type { Graph } from "../../../core/graph/graph.ts";
import { stateOf } from "../../../core/graph/graph-state.ts";
import { isJsonObject } from "../../../core/json.ts";
import type { Json } from "../../../core/json.ts";
import type { Further } from "./plan-further.ts";

/**
 * What a node that is complete leaves in the graph: all that the rest of the phase decides on, so that a phase which is taken up in the
 * middle decides the same.
 */
export type NodeResult = {
  /** The try of the node that it is of: it begins the names of what is done about it afterwards, so that that is done once. */
  readonly of: string;
  readonly status: ReplyStatus;
  readonly summary: string;
  readonly findings: readonly Finding[];
  readonly recommendations: readonly Recommendation[];
  /** The worktree that it worked in and what that held in the end; null: it changed no files. */
  readonly aside: { readonly name: string; readonly commit: string } | null;
  /** A question for a person, put when its batch has ended. */
  readonly escalate: ReplyEscalation | null;
  /** Why it wants the phase to end, for everybody. */
  readonly abort: string | null;
  /** What it told everybody: those of later batches hear it. Absent: nothing. */
  readonly said?: readonly string[];
  /** What the nodes are to do that it asked for, by their ids. Absent: it asked for none. */
  readonly further?: Readonly<Record<string, string>>;
};

export function resultOf(params: {
  readonly node: { readonly id: string; readonly agent: string };
  readonly reply: AgentReply;
  readonly of: string;
  readonly aside: NodeResult["aside"];
  readonly further: Further;
}): NodeResult {
  const { node, reply, of, aside, further } = params;
  const said = reply.broadcasts.filter(({ event }) => isForAgents(event)).map(({ message }) => message);
  const tasks = further.nodes.map((one) => [one.id, one.task] as const);
  return {
    of,
    status: reply.status,
    summary: summaryOf(reply, further),
    findings: reply.findings,
    recommendations: reply.recommendations.map((one) => ({ agent: node.agent, node: node.id, ...one })),
    aside,
    escalate: reply.escalate ?? stranded(further) ?? blocked(reply),
    abort: reply.broadcasts.find(({ event }) => event === "ABORT")?.message ?? null,
    ...(said.length === 0 ? {} : { said }),
    ...(tasks.length === 0 ? {} : { further: Object.fromEntries(tasks) }),
  };
}

/** The other events say what is to be done, and that is done. */
export function isForAgents(event: BroadcastPayload["event"]): boolean {
  return event === "CONTEXT_UPDATE" || event === "PHASE_CHANGE";
}

/** With what it wanted done and nobody does: those who come after it read it here. */
export function summaryOf({ summary }: Pick<AgentReply, "summary">, { left }: Pick<Further, "left">): string {
  if (left.length === 0) return summary;
  const named = left.slice(0, LEFT_NAMED).join("; ");
  const more = left.length > LEFT_NAMED ? `; and ${left.length - LEFT_NAMED} more` : "";
  return `${summary}\nLeft undone: ${named}${more}`;
}

const LEFT_NAMED = 10;

/** Who hands its work to nobody has not done it: a person says what becomes of it. */
function stranded({ stranded: why }: Further): ReplyEscalation | null {
  return why === null ? null : { reason: `${why}. Do it yourself or leave it, then say so`, options: [] };
}

/** Who can do nothing and names nobody who could waits for a person. */
function blocked({ status, summary, handoff }: AgentReply): ReplyEscalation | null {
  return status === "BLOCKED" && handoff === null ? { reason: summary, options: [] } : null;
}

/** Of the nodes that are complete, in the order of the definition. */
export function resultsIn(graph: Graph): readonly { readonly node: string; readonly result: NodeResult }[] {
  return graph.nodes.flatMap(({ id }) => {
    const { status, result } = stateOf(graph, id);
    return status === "complete" && isNodeResult(result) ? [{ node: id, result }] : [];
  });
}

/** Written by us alone; what a person said about a node whose outcome was unknown is not one. */
function isNodeResult(value: Json): value is NodeResult {
  return isJsonObject(value) && typeof value["summary"] === "string" && "recommendations" in value;
}

/** Why somebody ended the phase for everybody; null: nobody did. */
export function abortIn(graph: Graph): string | null {
  const aborting = resultsIn(graph).find(({ result }) => result.abort !== null);
  return aborting === undefined ? null : `${aborting.node} ended the phase: ${aborting.result.abort ?? ""}`;
}

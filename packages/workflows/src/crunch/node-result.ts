// The result of a crunch node: how its reply is recorded, and which follow-up nodes it adds to the graph.

import type { Graph, GraphNode } from "@holdfast/core/graph";
import { stateOf } from "@holdfast/core/graph-state";
import { type Json, isJsonObject } from "@holdfast/core/json";
import type { NodeScope } from "@holdfast/core/run-graph";
import type { AgentReport } from "@holdfast/core/workflow";
import { COORDINATOR, type PhaseContext, sendMessage, takeCheckpoint } from "./ask.ts";
import type { PendingCapture } from "./knowledge.ts";
import type { BroadcastPayload, Finding, Message, Recommendation, ReplyStatus } from "./messages.ts";
import { requireSetup, recordEvent } from "./phase-steps.ts";
import { taskOf } from "./plan-team.ts";
import type { AgentReply, ReplyEscalation } from "./reply.ts";

/**
 * What a complete node leaves in the graph. The rest of the phase decides from it alone, so that a resumed phase
 * decides the same.
 */
export type NodeResult = {
  /** Name of the node attempt. It prefixes the names of the steps that process the result, so that they run once. */
  readonly of: string;
  readonly status: ReplyStatus;
  readonly summary: string;
  readonly findings: readonly Finding[];
  readonly recommendations: readonly Recommendation[];
  /** The side worktree of the node and its final commit; null if the node changed no files. */
  readonly sideWorktree: { readonly name: string; readonly commit: string } | null;
  /** A question for the user, asked when the batch has ended. */
  readonly escalate: ReplyEscalation | null;
  /** Why the agent wants to end the phase; null if it does not. */
  readonly abort: string | null;
  /** Broadcasts for the nodes of later batches. Absent: none. */
  readonly broadcasts?: readonly string[];
  /** Tasks of the nodes that it requested, by node id. Absent: none. */
  readonly further?: Readonly<Record<string, string>>;
};

export function resultOf(params: {
  readonly node: { readonly id: string; readonly agent: string };
  readonly reply: AgentReply;
  readonly of: string;
  readonly sideWorktree: NodeResult["sideWorktree"];
  readonly further: FollowUpPlan;
}): NodeResult {
  const { node, reply, of, sideWorktree, further } = params;
  const broadcasts = reply.broadcasts.filter(({ event }) => isForAgents(event)).map(({ message }) => message);
  const tasks = further.nodes.map((one) => [one.id, one.task] as const);
  return {
    of,
    status: reply.status,
    summary: summaryOf(reply, further),
    findings: reply.findings,
    recommendations: reply.recommendations.map((one) => ({ agent: node.agent, node: node.id, ...one })),
    sideWorktree,
    escalate: reply.escalate ?? stranded(further) ?? blocked(reply),
    abort: reply.broadcasts.find(({ event }) => event === "ABORT")?.message ?? null,
    ...(broadcasts.length === 0 ? {} : { broadcasts }),
    ...(tasks.length === 0 ? {} : { further: Object.fromEntries(tasks) }),
  };
}

/** The result of a node whose output an imported document has. */
export function importedResult(node: string, summary: string): NodeResult {
  return {
    of: `imported/${node}`,
    status: "SUCCESS",
    summary,
    findings: [],
    recommendations: [],
    sideWorktree: null,
    escalate: null,
    abort: null,
  };
}

/** The other events request an action, which the engine performs. */
export function isForAgents(event: BroadcastPayload["event"]): boolean {
  return event === "CONTEXT_UPDATE" || event === "PHASE_CHANGE";
}

/** Appends what the agent requested but no one will do, so that later agents read it. */
export function summaryOf({ summary }: Pick<AgentReply, "summary">, { left }: Pick<FollowUpPlan, "left">): string {
  if (left.length === 0) return summary;
  const named = left.slice(0, LEFT_NAMED).join("; ");
  const more = left.length > LEFT_NAMED ? `; and ${left.length - LEFT_NAMED} more` : "";
  return `${summary}\nLeft undone: ${named}${more}`;
}

const LEFT_NAMED = 10;

/** A handover that no agent accepts leaves the work undone, so the user decides. */
function stranded({ stranded: why }: FollowUpPlan): ReplyEscalation | null {
  return why === null ? null : { reason: `${why}. Do it yourself or leave it, then say so`, options: [] };
}

/** A blocked agent without a handover waits for the user. */
function blocked({ status, summary, handoff }: AgentReply): ReplyEscalation | null {
  return status === "BLOCKED" && handoff === null ? { reason: summary, options: [] } : null;
}

/** Results of the complete nodes, in the order of the definition. */
export function completedResults(graph: Graph): readonly { readonly node: string; readonly result: NodeResult }[] {
  return graph.nodes.flatMap(({ id }) => {
    const { status, result } = stateOf(graph, id);
    return status === "complete" && isNodeResult(result) ? [{ node: id, result }] : [];
  });
}

/** Only Holdfast writes node results. A user's answer about a node with an unknown outcome is not one. */
function isNodeResult(value: Json): value is NodeResult {
  return isJsonObject(value) && typeof value["summary"] === "string" && "recommendations" in value;
}

/** Why an agent ended the phase; null if none did. */
export function abortReason(graph: Graph): string | null {
  const aborting = completedResults(graph).find(({ result }) => result.abort !== null);
  return aborting === undefined ? null : `${aborting.node} ended the phase: ${aborting.result.abort ?? ""}`;
}

interface ReplyContext {
  readonly node: GraphNode;
  readonly scope: NodeScope;
  /** The request that this reply answers. */
  readonly request: Message;
  readonly reply: AgentReply;
  readonly report: AgentReport;
}

/** Records a reply and processes its broadcasts and knowledge. */
export async function recordReply(given: PhaseContext, answered: ReplyContext): Promise<void> {
  const { node, scope, request, reply, report } = answered;
  await answerRequest(given, { name: scope.name("answer"), agent: node.agent, request, reply, report });
  await broadcast(given, answered);
  await planCaptures(given, answered);
}

async function broadcast(given: PhaseContext, { node, scope, reply }: ReplyContext): Promise<void> {
  const { context, phase } = given;
  for (const [index, { event, message }] of reply.broadcasts.entries()) {
    const { id } = await sendMessage(
      context,
      { name: scope.name(`broadcast-${index}`), from: node.agent, to: "*", answers: null, phase, priority: "NORMAL" },
      { type: "BROADCAST", payload: { event, message, data: {}, affects: [] } },
    );
    if (event === "CHECKPOINT") await takeCheckpoint(given, "manual", `${node.agent}: ${message}`);
    // Every agent that starts after this reads the broadcast in its prompt.
    await recordEvent(context, scope.name(`broadcast-${index}-heard`), { kind: "message_delivered", id });
  }
}

async function planCaptures({ context, phase }: PhaseContext, { scope, reply }: ReplyContext): Promise<void> {
  const { issue } = requireSetup(context);
  for (const [index, { type, content, tags }] of reply.knowledge.entries()) {
    const capture: PendingCapture = {
      name: `${phase}/${context.position.stageAttempt.number}/${scope.name(`knowledge-${index}`)}`,
      type,
      content,
      tags,
      source: { type: "issue", ref: `#${issue.number}`, phase },
      issue: issue.number,
    };
    await recordEvent(context, scope.name(`capture-${index}`), { kind: "capture_planned", capture });
  }
}

/** Records the one answer of a request; a handover also counts as an answer. */
export async function answerRequest(
  { context, phase }: PhaseContext,
  params: {
    /** Name of the step that records the answer. */
    readonly name: string;
    readonly agent: string;
    readonly request: Message;
    readonly reply: AgentReply;
    readonly report: AgentReport;
  },
): Promise<void> {
  const { name, agent, request, reply, report } = params;
  const { handoff } = reply;
  const envelope = {
    name,
    from: agent,
    to: COORDINATOR,
    answers: request.id,
    phase,
    priority: request.priority,
  };
  if (handoff !== null) {
    const contextTransfer = {
      workCompleted: [reply.summary],
      remainingWork: reply.followUps.map(({ task }) => task),
      relevantFindings: reply.findings.map(({ title }) => title),
    };
    const payload = {
      reason: handoff.reason,
      recommendedAgent: handoff.to,
      contextTransfer,
      urgency: "NORMAL",
    } as const;
    await sendMessage(context, envelope, { type: "HANDOFF", payload });
    return;
  }
  const { inputTokens, outputTokens } = report.usage;
  await sendMessage(context, envelope, {
    type: "RESPONSE",
    payload: {
      status: reply.status,
      result: {
        summary: reply.summary,
        outputs: reply.outputs,
        filesModified: reply.filesModified,
        filesCreated: reply.filesCreated,
      },
      findings: reply.findings,
      metrics: { durationMs: report.milliseconds, tokens: (inputTokens ?? 0) + (outputTokens ?? 0) },
      handoff: null,
    },
  });
}

/**
 * Plans the follow-up nodes in a step, because other nodes grow the graph at the same time and must not change the
 * plan.
 */
export async function addNodes(
  { context, team }: PhaseContext,
  { node, scope, reply }: Pick<ReplyContext, "node" | "scope" | "reply">,
): Promise<FollowUpPlan> {
  if (reply.handoff === null && reply.followUps.length === 0) return { nodes: [], left: [], stranded: null };
  const further = await context.step(scope.name("further"), () => {
    const graph = context.graph.now();
    if (graph === null) throw new TypeError("a node works and there is no graph");
    const members = team.members.map(({ agent }) => agent);
    const size = graph.nodes.length;
    const task = taskOfNode(graph, node);
    return planFollowUps({ node, attempt: scope.attempt, task, reply, members, size, depth: depthOf(graph, node.id) });
  });
  for (const { id, agent, action } of further.nodes) {
    const added: GraphNode = { ...node, id, agent, action, dependencies: [node.id], outputs: [] };
    await scope.add(added, [{ from: node.id, to: id, type: "sequence" }]);
  }
  return further;
}

/** The task of an added node is in the result of the node that requested it. Other tasks are in the graph. */
export function taskOfNode(graph: Graph, node: Pick<GraphNode, "id" | "action">): string {
  return addedTask(graph, node) ?? taskOf(graph, node);
}

/** The task of a node that an agent requested, in that agent's words; null if the graph holds the task. */
export function addedTask(graph: Graph, node: Pick<GraphNode, "id">): string | null {
  return askerOf(graph, node.id)?.task ?? null;
}

function depthOf(graph: Graph, id: string): number {
  let depth = 0;
  for (let asker = askerOf(graph, id); asker !== null; asker = askerOf(graph, asker.id)) depth += 1;
  return depth;
}

function askerOf(graph: Graph, id: string): { readonly id: string; readonly task: string } | null {
  for (const { node, result } of completedResults(graph)) {
    const task = result.further?.[id];
    if (result.further !== undefined && Object.hasOwn(result.further, id) && task !== undefined)
      return { id: node, task };
  }
  return null;
}

/** This is a type alias because a step's result must be JSON. */
type FollowUpPlan = {
  readonly nodes: readonly {
    readonly id: string;
    readonly agent: string;
    readonly action: string;
    readonly task: string;
  }[];
  /** Requests that no agent takes, each with the intended agent and the reason. */
  readonly left: readonly string[];
  /** Why the handed-over work remains undone; null if nothing was handed over or an agent does it. */
  readonly stranded: string | null;
};

interface Wanted {
  readonly name: string;
  readonly agent: string;
  readonly action: string;
  readonly task: string;
}

/**
 * Turns handovers and follow-ups into nodes after the agent's own node. Limits keep agents from handing work around or
 * finding more forever. What exceeds a limit is reported, not dropped.
 */
export function planFollowUps(params: {
  readonly node: GraphNode;
  readonly attempt: number;
  readonly task: string;
  readonly reply: Pick<AgentReply, "handoff" | "followUps">;
  readonly members: readonly string[];
  /** Number of nodes in the graph. */
  readonly size: number;
  /** Length of the chain of requests that led to this node. */
  readonly depth: number;
}): FollowUpPlan {
  const { node, reply, task } = params;
  const { handoff } = reply;
  const handed = handoff === null ? null : { ...handoffOf(params, handoff), name: "handoff" };
  const found = reply.followUps.map((one, index) => ({ ...one, name: `follow-up-${index + 1}` }));
  const nodes: FollowUpPlan["nodes"][number][] = [];
  const left: string[] = [];
  let stranded: string | null = null;
  for (const [index, one] of [...(handed === null ? [] : [handed]), ...found].entries()) {
    const why = obstacle(one, { ...params, size: params.size + nodes.length, index });
    const { agent, action } = one;
    if (why === null) nodes.push({ id: `${node.id}-${params.attempt}-${one.name}`, agent, action, task: one.task });
    else if (one === handed) stranded = `it hands its work over to ${one.agent}, ${why}: ${handoff?.reason ?? task}`;
    else left.push(`${one.task} (for ${one.agent}, ${why})`);
  }
  return { nodes, left, stranded };
}

function handoffOf(
  { node, task }: { readonly node: GraphNode; readonly task: string },
  { to, reason }: NonNullable<AgentReply["handoff"]>,
): Omit<Wanted, "name"> {
  return { agent: to, action: node.action, task: `${task}\n${node.agent} handed this over to you: ${reason}` };
}

const MAX_NODES = 100;
const MAX_DEPTH = 3;
const MAX_OF_ONE = 10;

function obstacle(
  { agent }: Wanted,
  params: {
    readonly members: readonly string[];
    readonly size: number;
    readonly depth: number;
    readonly index: number;
  },
): string | null {
  if (!params.members.includes(agent)) return "who is not of the team";
  if (params.depth >= MAX_DEPTH) return `but it came through ${MAX_DEPTH} others already`;
  if (params.index >= MAX_OF_ONE) return `but one answer may ask for ${MAX_OF_ONE} things`;
  return params.size < MAX_NODES ? null : `but the phase has ${MAX_NODES} nodes already`;
}

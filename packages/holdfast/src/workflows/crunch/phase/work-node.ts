import { editsFiles } from "../../../core/crunch/plan-phase-graph.ts";
import { proseOf } from "../../../core/crunch/prose-of.ts";
import { parseReply } from "../../../core/crunch/reply.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { TaskStatus } from "../../../core/crunch/team.ts";
import type { Graph, GraphNode } from "../../../core/graph/graph.ts";
import type { NodeOutcome, NodeScope } from "../../../engine/graph/graph-work.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { isoNow, tell } from "../work.ts";
import type { CrunchContext } from "../work.ts";
import { addNodes } from "./add-nodes.ts";
import { callAgent } from "./call-agent.ts";
import { hearReply } from "./hear-reply.ts";
import { stoppedOver } from "./merge-batch.ts";
import { abortIn, resultOf, summaryOf } from "./node-result.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { PhaseWork } from "./phase-work.ts";
import { promptOf } from "./prompt-of.ts";

/** One try of a node: asked for, worked on, answered and written down. */
export async function workNode(given: PhaseWork, node: GraphNode, scope: NodeScope): Promise<NodeOutcome> {
  const { work, context, phase } = given;
  const graph = requireGraph(context);
  const aborted = abortIn(graph) ?? stoppedOver(context.state.conflicts, phase);
  if (aborted !== null) return { kind: "failed", error: aborted, retryable: false };
  await moveTask(given, { node, name: scope.name("active"), status: "active" });
  const aside = editsFiles(graph, node) ? await context.aside(scope.name("aside")) : null;
  if (aside !== null) given.asides.set(aside.name, aside);
  const { report, request } = await callAgent(work, context, {
    naming: (part) => scope.name(part),
    agent: node.agent,
    role: node.id,
    action: node.action,
    node: node.id,
    phase,
    priority: PRIORITY[node.priority],
    prompt: (fence) => promptOf(given, node, graph, fence),
    timeoutMs: node.timeoutMs,
    attempt: scope.attempt,
    outputs: node.outputs,
    aside,
  });
  const reply = report.outcome === "completed" ? parseReply(report.text) : null;
  if (reply !== null) await hearReply(given, { node, scope, request, reply, report });
  // One that ends the phase for everybody is not tried again: it is heard.
  const aborts = reply?.broadcasts.some(({ event }) => event === "ABORT") ?? false;
  if (reply === null || (reply.status === "FAILED" && !aborts)) {
    if (aside !== null) await context.dropAside(aside);
    await moveTask(given, { node, name: scope.name("moved"), status: "failed" });
    return failure(report, reply);
  }
  // Of a try that failed nothing follows: the next one asks again.
  const further = await addNodes(given, { node, scope, reply });
  await deliver(given, { node, scope, text: report.text, reply: { ...reply, summary: summaryOf(reply, further) } });
  await moveTask(given, { node, name: scope.name("moved"), status: "completed" });
  await takeCheckpoint(given, "agent_complete", `${node.agent}: ${node.id}`);
  const held = aside === null || report.commit === null ? null : { name: aside.name, commit: report.commit };
  return { kind: "complete", result: resultOf({ node, reply, of: scope.name(), aside: held, further }) };
}

function failure({ cause, message }: AgentReport, reply: AgentReply | null): NodeOutcome {
  if (reply !== null) return { kind: "failed", error: reply.summary, retryable: true };
  if (cause === "timeout") return { kind: "timeout" };
  return { kind: "failed", error: `${cause ?? "failed"}: ${message ?? "it said nothing"}`, retryable: true };
}

async function moveTask(
  { context, phase }: PhaseWork,
  params: { readonly node: GraphNode; readonly name: string; readonly status: TaskStatus },
): Promise<void> {
  const { node, name, status } = params;
  await tell(context, name, { kind: "task_moved", task: `${phase}/${node.id}`, agent: node.agent, phase, status });
}

async function deliver(
  { context, phase }: PhaseWork,
  params: {
    readonly node: GraphNode;
    readonly scope: NodeScope;
    readonly reply: AgentReply;
    readonly text: string;
  },
): Promise<void> {
  const { node, scope, reply } = params;
  const delivered = node.outputs.length === 0 ? "" : proseOf(params.text);
  const { agent, action, id } = node;
  const output = { agent, action, node: id, phase, completedAt: isoNow(context), summary: reply.summary };
  await tell(context, scope.name("delivered"), {
    kind: "output_delivered",
    output: { ...output, location: reply.outputs[0] ?? null, ...(delivered === "" ? {} : { delivered }) },
  });
}

const PRIORITY = { critical: "CRITICAL", high: "HIGH", normal: "NORMAL", low: "LOW" } as const;

function requireGraph({ graph }: CrunchContext): Graph {
  const now = graph.now();
  if (now === null) throw new TypeError("a node works and there is no graph");
  return now;
}

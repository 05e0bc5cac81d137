import type { AgentOutput } from "../../../core/crunch/crunch-state.ts";
import type { GraphPhase } from "../../../core/crunch/graph-template.ts";
import type { KnowledgeEntry } from "../../../core/crunch/knowledge.ts";
import { editsFiles } from "../../../core/crunch/plan-phase-graph.ts";
import { parseReply } from "../../../core/crunch/reply.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { TaskStatus } from "../../../core/crunch/team.ts";
import { batchesOf } from "../../../core/graph-order.ts";
import type { Graph, GraphNode } from "../../../core/graph.ts";
import type { NodeOutcome, NodeScope } from "../../../engine/graph/graph-work.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { isoNow, requireSetup, tell } from "../work.ts";
import type { CrunchContext } from "../work.ts";
import { addNodes, taskOfNode } from "./add-nodes.ts";
import { callAgent } from "./call-agent.ts";
import { hearReply } from "./hear-reply.ts";
import { stoppedOver } from "./merge-batch.ts";
import { nodePrompt } from "./node-prompt.ts";
import { abortIn, resultOf, summaryOf } from "./node-result.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { PhaseWork } from "./phase-work.ts";

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
    prompt: promptOf(given, node, graph),
    timeoutMs: node.timeoutMs,
    attempt: scope.attempt,
    outputs: node.outputs,
    aside,
  });
  const reply = report.outcome === "completed" ? parseReply(report.text) : null;
  if (reply !== null) await hearReply(given, { node, scope, request, reply, report });
  if (reply === null || reply.status === "FAILED") {
    if (aside !== null) await context.dropAside(aside);
    await moveTask(given, { node, name: scope.name("moved"), status: "failed" });
    return failure(report, reply);
  }
  // Of a try that failed nothing follows: the next one asks again.
  const further = await addNodes(given, { node, scope, reply });
  await deliver(given, { node, scope, reply: { ...reply, summary: summaryOf(reply, further) } });
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
  params: { readonly node: GraphNode; readonly scope: NodeScope; readonly reply: AgentReply },
): Promise<void> {
  const { node, scope, reply } = params;
  const { agent, action, id } = node;
  const output = { agent, action, node: id, phase, completedAt: isoNow(context), summary: reply.summary };
  await tell(context, scope.name("delivered"), {
    kind: "output_delivered",
    output: { ...output, location: reply.outputs[0] ?? null },
  });
}

const PRIORITY = { critical: "CRITICAL", high: "HIGH", normal: "NORMAL", low: "LOW" } as const;

function promptOf({ context, phase }: PhaseWork, node: GraphNode, graph: Graph): string {
  const { issue, settings } = requireSetup(context);
  return nodePrompt({
    node,
    about: settings.agents[node.agent]?.about ?? "a member of the team.",
    task: taskOfNode(graph, node),
    phase,
    edits: editsFiles(graph, node),
    issue,
    outputs: outputsBefore(context.state.outputs, { graph, phase, node: node.id }),
    conflicts: context.state.conflicts,
    knowledge: toldKnowledge(context),
    feedback: context.position.feedback,
  });
}

/** Those who work at the same time know nothing of each other, whoever is quicker: the same prompt whenever it is written. */
function outputsBefore(
  outputs: readonly AgentOutput[],
  at: { readonly graph: Graph; readonly phase: GraphPhase; readonly node: string },
): readonly AgentOutput[] {
  const batches = batchesOf(at.graph);
  const own = batches.findIndex((batch) => batch.includes(at.node));
  const before = new Set(batches.slice(0, own).flat());
  return outputs.filter(({ phase, node }) => phase !== at.phase || before.has(node));
}

function toldKnowledge({ state }: CrunchContext): readonly KnowledgeEntry[] {
  const told = new Set(state.knowledge.injected.flatMap(({ entries }) => entries));
  return state.knowledge.entries.filter(({ id }) => told.has(id));
}

function requireGraph({ graph }: CrunchContext): Graph {
  const now = graph.now();
  if (now === null) throw new TypeError("a node works and there is no graph");
  return now;
}

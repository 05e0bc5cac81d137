import type { Team } from "../../../core/crunch/team.ts";
import { editsFiles, taskOf } from "../../../core/crunch/plan-phase-graph.ts";
import { parseReply } from "../../../core/crunch/reply.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphPhase } from "../../../core/crunch/graph-template.ts";
import type { GraphNode } from "../../../core/graph.ts";
import { stateOf } from "../../../core/graph-state.ts";
import type { NodeOutcome } from "../../../engine/graph/run-graph.ts";
import type { Aside } from "../../../engine/stage-context.ts";
import { requireSetup, tell, timeOf } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";
import { callAgent } from "./call-agent.ts";
import type { Asked } from "./call-agent.ts";
import { hearReply } from "./hear-reply.ts";
import { nodePrompt } from "./node-prompt.ts";
import { resultOf } from "./node-result.ts";

export interface NodeWork {
  readonly work: CrunchWork;
  readonly context: CrunchContext;
  readonly phase: GraphPhase;
  readonly team: Team;
  /** Open ones of this process, by name. */
  readonly asides: Map<string, Aside>;
}

/** One try of a node: asked for, worked on, answered and written down. */
export async function workNode(given: NodeWork, node: GraphNode): Promise<NodeOutcome> {
  const { work, context, phase } = given;
  const key = nodeKey(context, node.id);
  const task = { task: `${phase}/${node.id}`, agent: node.agent, phase } as const;
  await tell(context, `${key}:active`, { kind: "task_moved", ...task, status: "active" });
  const graph = requireGraph(context);
  const aside = editsFiles(graph, node) ? await context.aside(`${key}:aside`) : null;
  if (aside !== null) given.asides.set(aside.name, aside);
  const asked = await callAgent(work, context, {
    key,
    agent: node.agent,
    role: node.id,
    action: node.action,
    node: node.id,
    phase,
    priority: PRIORITY[node.priority],
    prompt: promptOf(given, node),
    timeoutMs: node.timeoutMs,
    outputs: node.outputs,
    aside,
  });
  if (asked.report.outcome === "failed") return await fail(given, { key, task, aside, asked });
  const reply = parseReply(asked.report.text);
  await hearReply(given, { node, key, request: asked.request, reply, report: asked.report });
  if (reply.status === "FAILED") {
    if (aside !== null) await context.dropAside(aside);
    await tell(context, `${key}:moved`, { kind: "task_moved", ...task, status: "failed" });
    return { kind: "failed", error: reply.summary, retryable: true };
  }
  await deliver(given, { node, key, reply });
  await tell(context, `${key}:moved`, { kind: "task_moved", ...task, status: "completed" });
  const { commit } = asked.report;
  const held = aside === null || commit === null ? null : { name: aside.name, commit };
  return { kind: "complete", result: resultOf({ node, reply, aside: held }) };
}

/** A name for each try that is never given twice, also when failed nodes are replayed. */
function nodeKey(context: CrunchContext, id: string): string {
  const { tries = 0 } = stateOf(requireGraph(context), id);
  return `${id}#${tries + 1}`;
}

async function fail(
  given: NodeWork,
  params: {
    readonly key: string;
    readonly task: { readonly task: string; readonly agent: string; readonly phase: GraphPhase };
    readonly aside: Aside | null;
    readonly asked: Asked;
  },
): Promise<NodeOutcome> {
  const { context } = given;
  const { key, task, aside } = params;
  const { cause, message } = params.asked.report;
  if (aside !== null) await context.dropAside(aside);
  await tell(context, `${key}:moved`, { kind: "task_moved", ...task, status: "failed" });
  if (cause === "timeout") return { kind: "timeout" };
  return { kind: "failed", error: `${cause ?? "failed"}: ${message ?? "it said nothing"}`, retryable: true };
}

async function deliver(
  { context, phase }: NodeWork,
  params: { readonly node: GraphNode; readonly key: string; readonly reply: AgentReply },
): Promise<void> {
  const { node, key, reply } = params;
  const completedAt = await timeOf(context, `${key}:delivered-at`);
  await tell(context, `${key}:delivered`, {
    kind: "output_delivered",
    output: {
      agent: node.agent,
      action: node.action,
      node: node.id,
      phase,
      completedAt,
      summary: reply.summary,
      location: reply.outputs[0] ?? null,
    },
  });
}

const PRIORITY = { critical: "CRITICAL", high: "HIGH", normal: "NORMAL", low: "LOW" } as const;

function promptOf({ context, phase }: NodeWork, node: GraphNode): string {
  const { issue, settings } = requireSetup(context);
  const graph = requireGraph(context);
  return nodePrompt({
    node,
    about: settings.agents[node.agent]?.about ?? "a member of the team.",
    task: taskOf(graph, node),
    phase,
    edits: editsFiles(graph, node),
    issue,
    state: context.state,
    knowledge: toldKnowledge(context),
    feedback: context.position.feedback,
  });
}

function toldKnowledge({ state }: CrunchContext) {
  const told = new Set(state.knowledge.injected.flatMap(({ entries }) => entries));
  return state.knowledge.entries.filter(({ id }) => told.has(id));
}

function requireGraph({ graph }: CrunchContext) {
  const now = graph.now();
  if (now === null) throw new TypeError("a node works and there is no graph");
  return now;
}

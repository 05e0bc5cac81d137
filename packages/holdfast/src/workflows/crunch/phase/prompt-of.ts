import type { Fence } from "../../../core/agent/fence.ts";
import type { KnowledgeEntry } from "../../../core/crunch/knowledge.ts";
import { editsFiles } from "../../../core/crunch/plan-phase-graph.ts";
import { batchesOf } from "../../../core/graph/graph-order.ts";
import type { Graph, GraphNode } from "../../../core/graph/graph.ts";
import { requireSetup } from "../work.ts";
import type { CrunchContext } from "../work.ts";
import { addedTask, taskOfNode } from "./add-nodes.ts";
import { nodePrompt } from "./node-prompt.ts";
import { isForAgents, resultsIn } from "./node-result.ts";
import { personAnswers } from "./person-answers.ts";
import type { PhaseWork } from "./phase-work.ts";

/** A node's prompt, of what is written down when it begins. */
export function promptOf({ context, phase }: PhaseWork, node: GraphNode, graph: Graph, fence: Fence): string {
  const { issue, settings } = requireSetup(context);
  const before = nodesBefore(graph, node.id);
  return nodePrompt({
    node,
    about: settings.agents[node.agent]?.about ?? "a member of the team.",
    task: taskOfNode(graph, node),
    isAdded: addedTask(graph, node) !== null,
    phase,
    edits: editsFiles(graph, node),
    issue,
    outputs: context.state.outputs.filter((one) => one.phase !== phase || before.has(one.node)),
    findings: resultsIn(graph)
      .filter((one) => before.has(one.node))
      .flatMap(({ node: id, result }) => result.findings.map((finding) => ({ agent: agentOf(graph, id), finding }))),
    said: saidBefore(context, { graph, before }),
    answers: personAnswers(context.state.messages),
    conflicts: context.state.conflicts,
    knowledge: toldKnowledge(context),
    feedback: context.position.feedback,
    fence,
  });
}

/** Of earlier batches. Those who work at the same time know nothing of each other, whoever is quicker: the same prompt whenever it is written. */
function nodesBefore(graph: Graph, node: string): ReadonlySet<string> {
  const batches = batchesOf(graph);
  const own = batches.findIndex((batch) => batch.includes(node));
  return new Set(batches.slice(0, own).flat());
}

/** In other stays by the book of messages, in this one by the nodes that are before. */
function saidBefore(
  { state }: CrunchContext,
  { graph, before }: { readonly graph: Graph; readonly before: ReadonlySet<string> },
): readonly string[] {
  const { phase, attempt } = state.phases.at(-1) ?? {};
  const earlier = state.messages.records.flatMap(({ message }) => {
    if (message.type !== "BROADCAST" || !isForAgents(message.payload.event)) return [];
    const { metadata, payload } = message;
    return metadata.phase === phase && metadata.attempt === attempt ? [] : [payload.message];
  });
  const here = resultsIn(graph).flatMap(({ node, result }) => (before.has(node) ? (result.said ?? []) : []));
  return [...earlier, ...here];
}

function agentOf(graph: Graph, id: string): string {
  return graph.nodes.find((node) => node.id === id)?.agent ?? id;
}

function toldKnowledge({ state }: CrunchContext): readonly KnowledgeEntry[] {
  const told = new Set(state.knowledge.injected.flatMap(({ entries }) => entries));
  return state.knowledge.entries.filter(({ id }) => told.has(id));
}

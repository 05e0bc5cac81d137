import { taskOf } from "../../../core/crunch/plan-phase-graph.ts";
import type { Graph, GraphNode } from "../../../core/graph/graph.ts";
import type { Heard } from "./hear-reply.ts";
import { resultsIn } from "./node-result.ts";
import { planFurther } from "./plan-further.ts";
import type { Further } from "./plan-further.ts";
import type { PhaseWork } from "./phase-work.ts";

/** Planned once and kept: others add nodes at the same time, and that must not change what was planned. */
export async function addNodes(
  { context, team }: PhaseWork,
  { node, scope, reply }: Pick<Heard, "node" | "scope" | "reply">,
): Promise<Further> {
  if (reply.handoff === null && reply.followUps.length === 0) return { nodes: [], left: [], stranded: null };
  const further = await context.step(scope.name("further"), () => {
    const graph = context.graph.now();
    if (graph === null) throw new TypeError("a node works and there is no graph");
    const members = team.members.map(({ agent }) => agent);
    const size = graph.nodes.length;
    const task = taskOfNode(graph, node);
    return planFurther({ node, attempt: scope.attempt, task, reply, members, size, depth: depthOf(graph, node.id) });
  });
  for (const { id, agent, action } of further.nodes) {
    const added: GraphNode = { ...node, id, agent, action, dependencies: [node.id], outputs: [] };
    await scope.add(added, [{ from: node.id, to: id, type: "sequence" }]);
  }
  return further;
}

/** What an added node is to do is in the result of the one that asked for it; of the others the graph says it. */
export function taskOfNode(graph: Graph, node: Pick<GraphNode, "id" | "action">): string {
  return addedTask(graph, node) ?? taskOf(graph, node);
}

/** The task of a node that an agent asked for, in the words of that agent; null: the graph itself has the task. */
export function addedTask(graph: Graph, node: Pick<GraphNode, "id">): string | null {
  return askerOf(graph, node.id)?.task ?? null;
}

function depthOf(graph: Graph, id: string): number {
  let depth = 0;
  for (let asker = askerOf(graph, id); asker !== null; asker = askerOf(graph, asker.id)) depth += 1;
  return depth;
}

function askerOf(graph: Graph, id: string): { readonly id: string; readonly task: string } | null {
  for (const { node, result } of resultsIn(graph)) {
    const task = result.further?.[id];
    if (result.further !== undefined && Object.hasOwn(result.further, id) && task !== undefined)
      return { id: node, task };
  }
  return null;
}

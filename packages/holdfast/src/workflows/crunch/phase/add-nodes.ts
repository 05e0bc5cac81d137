import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphEdge, GraphNode } from "../../../core/graph.ts";
import type { Heard } from "./hear-reply.ts";
import type { PhaseWork } from "./phase-work.ts";

/** Work that an agent hands over or found becomes nodes after its own, each once. */
export async function addNodes({ team }: PhaseWork, { node, scope, reply }: Heard): Promise<void> {
  const members = team.members.map(({ agent }) => agent);
  for (const one of planNodes({ node, attempt: scope.attempt, reply, members })) await scope.add(one.node, one.edges);
}

/** Who is not of the team gets nothing to do: the work stays with the one who found it, in its answer. */
export function planNodes(params: {
  readonly node: GraphNode;
  readonly attempt: number;
  readonly reply: Pick<AgentReply, "handoff" | "followUps">;
  readonly members: readonly string[];
}): readonly { readonly node: GraphNode; readonly edges: readonly GraphEdge[] }[] {
  const { node, members } = params;
  const { handoff, followUps } = params.reply;
  const wanted = [
    ...(handoff === null ? [] : [{ agent: handoff.to, action: node.action, name: "handoff" }]),
    ...followUps.map(({ agent, action }, index) => ({ agent, action, name: `follow-up-${index + 1}` })),
  ];
  return wanted
    .filter(({ agent }) => members.includes(agent))
    .map(({ agent, action, name }) => {
      const id = `${node.id}-${params.attempt}-${name}`;
      const added: GraphNode = { ...node, id, agent, action, dependencies: [node.id], outputs: [] };
      return { node: added, edges: [{ from: node.id, to: id, type: "sequence" }] };
    });
}

import type { GraphEdge, GraphNode } from "../../../core/graph.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { Heard } from "./hear-reply.ts";
import { timeOf } from "../work.ts";
import type { NodeWork } from "./work-node.ts";

/** Work that an agent hands over or found becomes nodes after its own. Those that are there already were added before. */
export async function addNodes({ context, team }: NodeWork, heard: Heard): Promise<void> {
  const { key } = heard;
  const planned = planNodes(
    heard,
    team.members.map(({ agent }) => agent),
  );
  if (planned.length === 0) return;
  const at = await timeOf(context, `${key}:added-at`);
  const there = new Set(context.graph.now()?.nodes.map(({ id }) => id));
  const added = planned.filter(({ definition }) => !there.has(definition.id));
  await context.graph.move(...added.map((one) => ({ kind: "add" as const, ...one, at })));
}

/** Who is not of the team gets nothing to do: the work stays with the one who found it, in its answer. */
export function planNodes(
  { node, key, reply }: Pick<Heard, "node" | "key"> & { readonly reply: Pick<AgentReply, "handoff" | "followUps"> },
  team: readonly string[],
): readonly { readonly definition: GraphNode; readonly edges: readonly GraphEdge[] }[] {
  const { handoff } = reply;
  const wanted = [
    ...(handoff === null ? [] : [{ agent: handoff.to, action: node.action, name: "handoff" }]),
    ...reply.followUps.map(({ agent, action }, index) => ({ agent, action, name: `follow-${index + 1}` })),
  ];
  return wanted
    .filter(({ agent }) => team.includes(agent))
    .map(({ agent, action, name }) => {
      const id = `${key.replace("#", "-")}-${name}-${agent}`;
      const definition: GraphNode = { ...node, id, agent, action, dependencies: [node.id], outputs: [] };
      return { definition, edges: [{ from: node.id, to: id, type: "sequence" }] };
    });
}

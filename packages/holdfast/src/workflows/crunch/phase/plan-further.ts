import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphNode } from "../../../core/graph/graph.ts";

/** A type and no interface: it is a step's result. */
export type Further = {
  readonly nodes: readonly {
    readonly id: string;
    readonly agent: string;
    readonly action: string;
    readonly task: string;
  }[];
  /** What nobody takes on, each with who was meant and why not. */
  readonly left: readonly string[];
  /** Why the work that was handed over stays undone; null: nothing was, or somebody does it. */
  readonly stranded: string | null;
};

interface Wanted {
  readonly name: string;
  readonly agent: string;
  readonly action: string;
  readonly task: string;
}

/**
 * Work that an agent hands over or found becomes nodes after its own. Agents who hand the same thing to each other, or find more with every look,
 * would never come to an end: there are bounds, and what lies beyond them is told and not dropped.
 */
export function planFurther(params: {
  readonly node: GraphNode;
  readonly attempt: number;
  readonly task: string;
  readonly reply: Pick<AgentReply, "handoff" | "followUps">;
  readonly members: readonly string[];
  /** How many nodes the graph has. */
  readonly size: number;
  /** From how many others, one after the other, the node's own work came. */
  readonly depth: number;
}): Further {
  const { node, reply, task } = params;
  const { handoff } = reply;
  const handed = handoff === null ? null : { ...handoffOf(params, handoff), name: "handoff" };
  const found = reply.followUps.map((one, index) => ({ ...one, name: `follow-up-${index + 1}` }));
  const nodes: Further["nodes"][number][] = [];
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

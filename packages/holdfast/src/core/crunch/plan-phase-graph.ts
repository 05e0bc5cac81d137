import type { Graph, GraphEdge, GraphNode } from "../graph/graph.ts";
import { checkGraph } from "../graph/graph-order.ts";
import { isJsonObject } from "../json.ts";
import { pureSha256 } from "../sha256.ts";
import type { ComplexityLevel } from "./complexity.ts";
import type { GraphPhase, GraphTemplate, TemplateCondition, TemplateEdge, TemplateNode } from "./graph-template.ts";
import { hasLabel } from "./labels.ts";
import type { AgentProfile } from "./settings.ts";
import { membersIn } from "./team.ts";
import type { Team } from "./team.ts";

/**
 * A template and a team make a graph. A node for a role becomes one for each member; a node that nobody fills or whose condition does
 * not hold falls out, and those after it wait for what it would have waited for. USAGE with every problem, cycles named.
 */
export function planPhaseGraph(params: {
  readonly phase: GraphPhase;
  readonly template: GraphTemplate;
  readonly team: Team;
  readonly agents: Readonly<Record<string, AgentProfile>>;
  readonly labels: readonly string[];
  /** Which stay in the phase this is, so that each has a graph of its own. */
  readonly attempt: number;
  readonly at: string;
}): Graph {
  const { phase, template, team } = params;
  const filled = template.nodes.map((node) => ({
    node,
    agents: holds(node.when, params) ? agentsFor(node, params) : [],
  }));
  const nodesOf = new Map<string, readonly string[]>();
  for (const { node, agents } of filled) {
    nodesOf.set(node.id, [...(nodesOf.get(node.id) ?? []), ...agents.map((agent) => idOf(node, agent))]);
  }
  const stand = (id: string): readonly string[] => standIns({ id, template, nodesOf });
  const nodes = filled.flatMap(({ node, agents }) =>
    agents.map((agent): GraphNode => ({
      id: idOf(node, agent),
      agent,
      action: node.action,
      dependencies: [...new Set(node.after.flatMap(stand))],
      priority: node.priority,
      timeoutMs: node.timeoutMs ?? params.agents[agent]?.timeoutMs ?? null,
      retries: node.retries,
      idempotent: node.idempotent,
      outputs: node.outputs,
    })),
  );
  const edges = template.edges.flatMap((edge) => edgesOf(edge, { nodesOf, stand }));
  const kept = filled.flatMap(({ node, agents }) => agents.map((agent) => [idOf(node, agent), node] as const));
  const hash = pureSha256(JSON.stringify([team.issue, phase, params.attempt, nodes.map((node) => node.id)]));
  const graph: Graph = {
    id: `GRAPH-${params.at.slice(0, 19).replaceAll(/[-:]/g, "")}-${hash.slice(0, 8)}`,
    nodes,
    edges,
    states: {},
    meta: {
      issue: team.issue,
      phase,
      attempt: params.attempt,
      tasks: Object.fromEntries(kept.map(([id, node]) => [id, node.task])),
      edits: Object.fromEntries(kept.map(([id, node]) => [id, node.edits])),
    },
  };
  checkGraph(graph);
  return graph;
}

/** Does this node work on files? One that was added while the graph ran is told by its action. */
export function editsFiles(graph: Graph, node: Pick<GraphNode, "id" | "action">): boolean {
  const edits = isJsonObject(graph.meta["edits"]) ? graph.meta["edits"] : {};
  const known = Object.hasOwn(edits, node.id) ? edits[node.id] : undefined;
  return typeof known === "boolean" ? known : EDITING_ACTIONS.has(node.action);
}

/** What the agent of a node is told to do; its action when the graph does not say. */
export function taskOf(graph: Graph, node: Pick<GraphNode, "id" | "action">): string {
  const tasks = isJsonObject(graph.meta["tasks"]) ? graph.meta["tasks"] : {};
  const told = Object.hasOwn(tasks, node.id) ? tasks[node.id] : undefined;
  return typeof told === "string" ? told : node.action;
}

const EDITING_ACTIONS: ReadonlySet<string> = new Set(["implement", "document", "fix"]);

const LEVELS: Readonly<Record<ComplexityLevel, number>> = { LOW: 0, MEDIUM: 1, HIGH: 2, CRITICAL: 3 };

function holds(when: TemplateCondition, params: { readonly team: Team; readonly labels: readonly string[] }): boolean {
  const { team, labels } = params;
  return (
    (when.domains.length === 0 || when.domains.some((domain) => team.domains.includes(domain))) &&
    (when.labels.length === 0 || when.labels.some((label) => hasLabel(labels, label.toLowerCase()))) &&
    (when.complexity === null || LEVELS[team.complexity.level] >= LEVELS[when.complexity])
  );
}

function agentsFor(
  { who }: TemplateNode,
  { team, phase }: { readonly team: Team; readonly phase: GraphPhase },
): readonly string[] {
  if (who.kind === "role") return membersIn(team, { role: who.role, phase });
  return team.members.some((member) => member.agent === who.agent) ? [who.agent] : [];
}

function idOf(node: TemplateNode, agent: string): string {
  return node.who.kind === "role" ? `${node.id}-${agent}` : node.id;
}

/** The nodes that came of a template's node; of one that fell out, those that it would have waited for. */
function standIns(params: {
  readonly id: string;
  readonly template: GraphTemplate;
  readonly nodesOf: ReadonlyMap<string, readonly string[]>;
}): readonly string[] {
  const { template, nodesOf } = params;
  const found = new Set<string>();
  const seen = new Set([params.id]);
  for (const id of seen) {
    const nodes = nodesOf.get(id);
    // One that the template does not have stays, so that the check can name it.
    if (nodes === undefined) found.add(id);
    else if (nodes.length > 0) for (const node of nodes) found.add(node);
    else for (const earlier of before(template, id)) seen.add(earlier);
  }
  return [...found];
}

function before(template: GraphTemplate, id: string): readonly string[] {
  return [
    ...template.nodes.filter((node) => node.id === id).flatMap((node) => node.after),
    ...template.edges.filter((edge) => edge.to === id).map((edge) => edge.from),
  ];
}

/** An end that fell out takes a data edge or an approval with it: there is nothing to hand over or to approve. Its order stays. */
function edgesOf(
  edge: TemplateEdge,
  params: {
    readonly nodesOf: ReadonlyMap<string, readonly string[]>;
    readonly stand: (id: string) => readonly string[];
  },
): readonly GraphEdge[] {
  const there = params.nodesOf.get(edge.from);
  const to = params.nodesOf.get(edge.to) ?? [edge.to];
  const fellOut = there?.length === 0;
  const from = fellOut ? params.stand(edge.from) : (there ?? [edge.from]);
  return from.flatMap((one) =>
    to.map((other): GraphEdge => {
      const ends = { from: one, to: other };
      if (fellOut || edge.type === "sequence") return { ...ends, type: "sequence" };
      return edge.type === "data"
        ? { ...ends, type: "data", key: edge.key }
        : { ...ends, type: "approval", by: edge.by, approvedAt: null };
    }),
  );
}

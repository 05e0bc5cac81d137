import type { GraphTemplate, TemplateEdge, TemplateNode } from "../../core/crunch/graph-template.ts";
import type { AgentProfile, TeamRules, VetoRules, WeightRules } from "../../core/crunch/settings.ts";
import type { AgentsFile, GraphFile, TeamFile, VetoFile, WeightsFile } from "./crunch-schema.ts";

/** What a file says, over what holds without it. Agents are changed key by key; a graph is replaced whole. */

export function mergeAgents(
  file: AgentsFile,
  known: Readonly<Record<string, AgentProfile>>,
): Readonly<Record<string, AgentProfile>> {
  const removed = new Set(file.remove);
  const merged = new Map(Object.entries(known).filter(([name]) => !removed.has(name)));
  for (const [name, { timeout, ...given }] of Object.entries(file.agents ?? {})) {
    const base = Object.hasOwn(known, name) ? (known[name] ?? BLANK) : BLANK;
    const { role = base.role, phases = base.phases, domains = base.domains, keywords = base.keywords } = given;
    const { always = base.always, agent = base.agent, about = base.about } = given;
    merged.set(name, { role, phases, domains, keywords, always, agent, about, timeoutMs: timeout ?? base.timeoutMs });
  }
  return Object.fromEntries(merged);
}

export function mergeTeam(file: TeamFile, known: TeamRules): TeamRules {
  return {
    labelPoints: file.labelPoints ?? known.labelPoints,
    keywordPoints: file.keywordPoints ?? known.keywordPoints,
    leastPoints: file.leastPoints ?? known.leastPoints,
    fallbackImplementer: file.fallbackImplementer ?? known.fallbackImplementer,
  };
}

export function mergeWeights(file: WeightsFile, known: WeightRules): WeightRules {
  const over = (given: NonNullable<WeightsFile["others"]> | undefined, base: WeightRules["others"]) => ({
    base: given?.base ?? base.base,
    boost: given?.boost ?? base.boost,
    domains: given?.domains ?? base.domains,
  });
  const others = over(file.others, known.others);
  const agents = new Map(Object.entries(known.agents));
  for (const [name, given] of Object.entries(file.agents ?? {}))
    agents.set(name, over(given, agents.get(name) ?? others));
  return {
    agents: Object.fromEntries(agents),
    others,
    maxRounds: file.maxRounds ?? known.maxRounds,
    margin: file.margin ?? known.margin,
  };
}

export function mergeVeto(file: VetoFile, known: VetoRules): VetoRules {
  const rules = new Map(Object.entries(known));
  for (const [name, severity] of Object.entries(file)) {
    if (severity === "none") rules.delete(name);
    else rules.set(name, severity);
  }
  return Object.fromEntries(rules);
}

/** Of a file that was checked. */
export function templateOf(file: GraphFile): GraphTemplate {
  return { nodes: file.nodes.map((node) => nodeOf(node)), edges: (file.edges ?? []).map((edge) => edgeOf(edge)) };
}

function nodeOf(node: GraphFile["nodes"][number]): TemplateNode {
  return {
    id: node.id,
    who: node.role === undefined ? { kind: "agent", agent: node.agent ?? "" } : { kind: "role", role: node.role },
    action: node.action,
    task: node.task,
    after: node.after ?? [],
    priority: node.priority ?? "normal",
    timeoutMs: node.timeout ?? null,
    retries: node.retries ?? 0,
    idempotent: node.idempotent ?? true,
    edits: node.edits ?? false,
    outputs: node.outputs ?? [],
    when: {
      domains: node.when?.domains ?? [],
      labels: node.when?.labels ?? [],
      complexity: node.when?.complexity ?? null,
    },
  };
}

function edgeOf({ type, from, to, key, by }: NonNullable<GraphFile["edges"]>[number]): TemplateEdge {
  switch (type) {
    case "data":
      return { type, from, to, key: key ?? "" };
    case "sequence":
      return { type, from, to };
    case "approval":
      return { type, from, to, by: by ?? "" };
  }
}

const BLANK: AgentProfile = {
  role: "implementer",
  phases: [],
  domains: [],
  keywords: [],
  always: false,
  timeoutMs: 300_000,
  agent: null,
  about: "",
};

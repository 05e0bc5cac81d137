// The types of crunch's settings: agents, team rules, vote weights, vetoes and graph templates.

import {
  type Shape,
  type TypeOf,
  anyOf,
  count,
  dictionary,
  finite,
  flag,
  list,
  nullable,
  object,
  optional,
  text,
  variants,
} from "@holdfast/core/json";
import { SEVERITY_SHAPE } from "./messages.ts";
import type { Phase } from "./phases.ts";
import { COMPLEXITY_LEVELS, PHASE_SHAPE, ROLE_SHAPE, type Role } from "./team.ts";

/** The phases in which a team executes a graph; the others only wait or publish. */
export const GRAPH_PHASES = ["enrich", "implementing", "e2e", "docs"] as const;
export type GraphPhase = (typeof GRAPH_PHASES)[number];

const TEXTS = list(text);

/** All given conditions must be true. Without any, the node always applies. */
const CONDITION_SHAPE = object({
  /** At least one must be a domain of the issue. Empty: no condition. */
  domains: TEXTS,
  /** The issue must have at least one of them. Empty: no condition. */
  labels: TEXTS,
  /** Minimum complexity; null: no condition. */
  complexity: nullable(anyOf(COMPLEXITY_LEVELS)),
});
export type TemplateCondition = TypeOf<typeof CONDITION_SHAPE>;

const NODE_SHAPE = object({
  id: text,
  /** One agent, if the team has it; or a role, with one node for each member that has it in this phase. */
  who: variants("kind", { agent: object({ agent: text }), role: object({ role: ROLE_SHAPE }) }),
  action: text,
  /** The agent's task, in a sentence or two. */
  task: text,
  after: TEXTS,
  priority: anyOf(["critical", "high", "normal", "low"]),
  /** null: the timeout of the agent's profile. */
  timeoutMs: nullable(count),
  retries: count,
  /** Whether the node may run again if it is unknown whether it ran. */
  idempotent: flag,
  /** Whether the node changes files, in its own side worktree. */
  edits: flag,
  outputs: TEXTS,
  when: CONDITION_SHAPE,
});
export type TemplateNode = TypeOf<typeof NODE_SHAPE>;

const EDGE_SHAPE = variants("type", {
  data: object({ from: text, to: text, key: text }),
  sequence: object({ from: text, to: text }),
  approval: object({ from: text, to: text, by: text }),
});
export type TemplateEdge = TypeOf<typeof EDGE_SHAPE>;

const TEMPLATE_SHAPE = object({ nodes: list(NODE_SHAPE), edges: list(EDGE_SHAPE) });
export type GraphTemplate = TypeOf<typeof TEMPLATE_SHAPE>;

const PROFILE_SHAPE: Shape<AgentProfile> = object<AgentProfile>({
  role: ROLE_SHAPE,
  phases: list(PHASE_SHAPE),
  domains: TEXTS,
  keywords: TEXTS,
  languages: optional(TEXTS),
  always: flag,
  timeoutMs: count,
  agent: nullable(text),
  about: text,
});
/** An agent that can become a member of a team. */
export type AgentProfile = {
  readonly role: Role;
  readonly phases: readonly Phase[];
  /** Domains of an issue that select this agent. */
  readonly domains: readonly string[];
  /** Words in the text that select this agent. */
  readonly keywords: readonly string[];
  /** Languages that it works in. Words of the issue select it only in a repository with one of them. Absent: any. */
  readonly languages?: readonly string[];
  /** Whether the agent is in every team. */
  readonly always: boolean;
  readonly timeoutMs: number;
  /** `provider:model` that executes this agent; null: the run's default model. */
  readonly agent: string | null;
  /** Description of the agent, for its prompts. */
  readonly about: string;
};

const TEAM_RULES_SHAPE = object({
  labelPoints: count,
  keywordPoints: count,
  /** Minimum points to select an agent. */
  leastPoints: count,
  /** The implementer to add if none is selected. */
  fallbackImplementer: text,
});
export type TeamRules = TypeOf<typeof TEAM_RULES_SHAPE>;

const WEIGHT_SHAPE = object({
  base: finite,
  /** Added if the conflict concerns one of the domains. */
  boost: finite,
  domains: TEXTS,
});
export type Weight = TypeOf<typeof WEIGHT_SHAPE>;

const WEIGHTS_SHAPE = object({
  /** By agent. A name that ends in `*` matches as a prefix; an exact name takes precedence. */
  agents: dictionary(WEIGHT_SHAPE),
  others: WEIGHT_SHAPE,
  /** From 1 to 3. */
  maxRounds: count,
  /** Scores whose difference is at most this fraction of the higher one are a tie. */
  margin: finite,
});
export type WeightRules = TypeOf<typeof WEIGHTS_SHAPE>;

const VETO_SHAPE = dictionary(SEVERITY_SHAPE);
/** The agents that may veto, with their maximum severity. A more severe claim is reduced to that maximum. */
export type VetoRules = TypeOf<typeof VETO_SHAPE>;

export const SETTINGS_SHAPE = object({
  agents: dictionary(PROFILE_SHAPE),
  team: TEAM_RULES_SHAPE,
  weights: WEIGHTS_SHAPE,
  veto: VETO_SHAPE,
  graphs: object({
    enrich: TEMPLATE_SHAPE,
    implementing: TEMPLATE_SHAPE,
    e2e: TEMPLATE_SHAPE,
    docs: TEMPLATE_SHAPE,
  }),
});
/** Everything a user can configure about teams. A run keeps the settings it started with. */
export type CrunchSettings = TypeOf<typeof SETTINGS_SHAPE>;

/** Path below the repository root. */
export const CRUNCH_DIRECTORY = ".holdfast/crunch";

export type CrunchFileKind =
  | { readonly kind: "agents" | "team" | "weights" | "veto" }
  | { readonly kind: "graph"; readonly phase: GraphPhase };

/**
 * Known files by their path below CRUNCH_DIRECTORY. Of the two names for the e2e phase, only the newer one is written.
 */
export const CRUNCH_FILES: ReadonlyMap<string, CrunchFileKind> = new Map<string, CrunchFileKind>([
  ["agents.yaml", { kind: "agents" }],
  ["team.yaml", { kind: "team" }],
  ["weights.yaml", { kind: "weights" }],
  ["veto.yaml", { kind: "veto" }],
  ...GRAPH_PHASES.map((phase) => [`graphs/${phase}.yaml`, { kind: "graph", phase }] as const),
  ["graphs/validation.yaml", { kind: "graph", phase: "e2e" }],
]);

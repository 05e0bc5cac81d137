// The types of crunch's settings: agents, team rules, vote weights, vetoes and graph templates. The types are aliases
// because TypeScript does not accept an interface as a JSON object.

import type { Priority } from "@holdfast/core/graph";
import {
  type Shape,
  count,
  dictionary,
  finite,
  flag,
  list,
  nullable,
  object,
  oneOf,
  tagged,
  text,
} from "@holdfast/core/json";
import { SEVERITY_SHAPE, type VetoSeverity } from "./messages.ts";
import type { Phase } from "./phases.ts";
import { type ComplexityLevel, PHASE_SHAPE, ROLE_SHAPE, type Role } from "./team.ts";

/** The phases in which a team executes a graph; the others only wait or publish. */
export const GRAPH_PHASES = ["enrich", "implementing", "e2e", "docs"] as const;
export type GraphPhase = (typeof GRAPH_PHASES)[number];

/** All given conditions must be true. Without any, the node always applies. */
export type TemplateCondition = {
  /** At least one must be a domain of the issue. Empty: no condition. */
  readonly domains: readonly string[];
  /** The issue must have at least one of them. Empty: no condition. */
  readonly labels: readonly string[];
  /** Minimum complexity; null: no condition. */
  readonly complexity: ComplexityLevel | null;
};

export type TemplateNode = {
  readonly id: string;
  /** One agent, if the team has it; or a role, with one node for each member that has it in this phase. */
  readonly who: { readonly kind: "agent"; readonly agent: string } | { readonly kind: "role"; readonly role: Role };
  readonly action: string;
  /** The agent's task, in a sentence or two. */
  readonly task: string;
  readonly after: readonly string[];
  readonly priority: Priority;
  /** null: the timeout of the agent's profile. */
  readonly timeoutMs: number | null;
  readonly retries: number;
  /** Whether the node may run again if it is unknown whether it ran. */
  readonly idempotent: boolean;
  /** Whether the node changes files, in its own side worktree. */
  readonly edits: boolean;
  readonly outputs: readonly string[];
  readonly when: TemplateCondition;
};

export type TemplateEdge =
  | { readonly type: "data"; readonly from: string; readonly to: string; readonly key: string }
  | { readonly type: "sequence"; readonly from: string; readonly to: string }
  | { readonly type: "approval"; readonly from: string; readonly to: string; readonly by: string };

export type GraphTemplate = { readonly nodes: readonly TemplateNode[]; readonly edges: readonly TemplateEdge[] };

const TEXTS = list(text);

const TEMPLATE_SHAPE: Shape<GraphTemplate> = object<GraphTemplate>({
  nodes: list(
    object<TemplateNode>({
      id: text,
      who: tagged<TemplateNode["who"], "kind">("kind", {
        agent: object<{ readonly kind: "agent"; readonly agent: string }>({
          kind: oneOf<"agent">({ agent: true }),
          agent: text,
        }),
        role: object<{ readonly kind: "role"; readonly role: Role }>({
          kind: oneOf<"role">({ role: true }),
          role: ROLE_SHAPE,
        }),
      }),
      action: text,
      task: text,
      after: TEXTS,
      priority: oneOf<Priority>({ critical: true, high: true, normal: true, low: true }),
      timeoutMs: nullable(count),
      retries: count,
      idempotent: flag,
      edits: flag,
      outputs: TEXTS,
      when: object<TemplateCondition>({
        domains: TEXTS,
        labels: TEXTS,
        complexity: nullable(oneOf<ComplexityLevel>({ LOW: true, MEDIUM: true, HIGH: true, CRITICAL: true })),
      }),
    }),
  ),
  edges: list(
    tagged<TemplateEdge, "type">("type", {
      data: object<Extract<TemplateEdge, { readonly type: "data" }>>({
        type: oneOf<"data">({ data: true }),
        from: text,
        to: text,
        key: text,
      }),
      sequence: object<Extract<TemplateEdge, { readonly type: "sequence" }>>({
        type: oneOf<"sequence">({ sequence: true }),
        from: text,
        to: text,
      }),
      approval: object<Extract<TemplateEdge, { readonly type: "approval" }>>({
        type: oneOf<"approval">({ approval: true }),
        from: text,
        to: text,
        by: text,
      }),
    }),
  ),
});

/** An agent that can become a member of a team. */
export type AgentProfile = {
  readonly role: Role;
  readonly phases: readonly Phase[];
  /** Domains of an issue that select this agent. */
  readonly domains: readonly string[];
  /** Words in the text that select this agent. */
  readonly keywords: readonly string[];
  /** Whether the agent is in every team. */
  readonly always: boolean;
  readonly timeoutMs: number;
  /** `provider:model` that executes this agent; null: the run's default model. */
  readonly agent: string | null;
  /** Description of the agent, for its prompts. */
  readonly about: string;
};

export type TeamRules = {
  readonly labelPoints: number;
  readonly keywordPoints: number;
  /** Minimum points to select an agent. */
  readonly leastPoints: number;
  /** The implementer to add if none is selected. */
  readonly fallbackImplementer: string;
};

export type Weight = {
  readonly base: number;
  /** Added if the conflict concerns one of the domains. */
  readonly boost: number;
  readonly domains: readonly string[];
};

export type WeightRules = {
  /** By agent. A name that ends in `*` matches as a prefix; an exact name takes precedence. */
  readonly agents: Readonly<Record<string, Weight>>;
  readonly others: Weight;
  /** From 1 to 3. */
  readonly maxRounds: number;
  /** Scores whose difference is at most this fraction of the higher one are a tie. */
  readonly margin: number;
};

/** The agents that may veto, with their maximum severity. A more severe claim is reduced to that maximum. */
export type VetoRules = Readonly<Record<string, VetoSeverity>>;

/** Everything a user can configure about teams. A run keeps the settings it started with. */
export type CrunchSettings = {
  readonly agents: Readonly<Record<string, AgentProfile>>;
  readonly team: TeamRules;
  readonly weights: WeightRules;
  readonly veto: VetoRules;
  readonly graphs: Readonly<Record<GraphPhase, GraphTemplate>>;
};

const WEIGHT_SHAPE = object<Weight>({ base: finite, boost: finite, domains: list(text) });

export const SETTINGS_SHAPE: Shape<CrunchSettings> = object<CrunchSettings>({
  agents: dictionary(
    object<AgentProfile>({
      role: ROLE_SHAPE,
      phases: list(PHASE_SHAPE),
      domains: list(text),
      keywords: list(text),
      always: flag,
      timeoutMs: count,
      agent: nullable(text),
      about: text,
    }),
  ),
  team: object<TeamRules>({ labelPoints: count, keywordPoints: count, leastPoints: count, fallbackImplementer: text }),
  weights: object<WeightRules>({
    agents: dictionary(WEIGHT_SHAPE),
    others: WEIGHT_SHAPE,
    maxRounds: count,
    margin: finite,
  }),
  veto: dictionary(SEVERITY_SHAPE),
  graphs: object<Record<GraphPhase, GraphTemplate>>({
    enrich: TEMPLATE_SHAPE,
    implementing: TEMPLATE_SHAPE,
    e2e: TEMPLATE_SHAPE,
    docs: TEMPLATE_SHAPE,
  }),
});

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

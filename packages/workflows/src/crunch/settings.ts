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

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

/** The phases in which a team works on a graph; the others only wait or write. */
export const GRAPH_PHASES = ["enrich", "implementing", "e2e", "docs"] as const;
export type GraphPhase = (typeof GRAPH_PHASES)[number];

/** All that is given must hold; nothing given holds always. */
export type TemplateCondition = {
  /** At least one of them is a domain of the issue. Empty: whatever they are. */
  readonly domains: readonly string[];
  /** The issue carries at least one of them. Empty: whatever it carries. */
  readonly labels: readonly string[];
  /** The least complexity. */
  readonly complexity: ComplexityLevel | null;
};

export type TemplateNode = {
  readonly id: string;
  /** One agent, if the team has it; or a role: one node for each of the team who has it in this phase. */
  readonly who: { readonly kind: "agent"; readonly agent: string } | { readonly kind: "role"; readonly role: Role };
  readonly action: string;
  /** What the agent is told to do, in a sentence or two. */
  readonly task: string;
  readonly after: readonly string[];
  readonly priority: Priority;
  /** null: as long as the agent's own profile says. */
  readonly timeoutMs: number | null;
  readonly retries: number;
  /** May it be run again when nobody can tell whether it ran? */
  readonly idempotent: boolean;
  /** Works on the files, in a worktree of its own. */
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

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

/** One of those who may be called into a team. */
export type AgentProfile = {
  readonly role: Role;
  readonly phases: readonly Phase[];
  /** Labels that call it. */
  readonly domains: readonly string[];
  /** Words in the text that call it. */
  readonly keywords: readonly string[];
  /** In every team. */
  readonly always: boolean;
  readonly timeoutMs: number;
  /** `provider:model` of the program that plays it; null: the run's own. */
  readonly agent: string | null;
  /** Who it is, for its prompts. */
  readonly about: string;
};

export type TeamRules = {
  readonly labelPoints: number;
  readonly keywordPoints: number;
  /** Fewer points than this call nobody. */
  readonly leastPoints: number;
  /** Who implements when nothing calls an implementer. */
  readonly fallbackImplementer: string;
};

export type Weight = {
  readonly base: number;
  /** Added where the conflict is about one of its domains. */
  readonly boost: number;
  readonly domains: readonly string[];
};

export type WeightRules = {
  /** By agent; a name that ends in `*` stands for all that begin so, and an exact one comes first. */
  readonly agents: Readonly<Record<string, Weight>>;
  readonly others: Weight;
  /** From 1 to 3. */
  readonly maxRounds: number;
  /** Scores nearer than this part of the higher one are a tie. */
  readonly margin: number;
};

/** Who may veto, and how severely at most. A claim above that counts as the most the agent may make. */
export type VetoRules = Readonly<Record<string, VetoSeverity>>;

/** All that a user can change about how teams work. A run keeps those it began with. */
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

/** Below the root of the repository. */
export const CRUNCH_DIRECTORY = ".holdfast/crunch";

export type CrunchFileKind =
  | { readonly kind: "agents" | "team" | "weights" | "veto" }
  | { readonly kind: "graph"; readonly phase: GraphPhase };

/** The files that may be there, by their path below CRUNCH_DIRECTORY. Of two names for one phase only the newer is written. */
export const CRUNCH_FILES: ReadonlyMap<string, CrunchFileKind> = new Map<string, CrunchFileKind>([
  ["agents.yaml", { kind: "agents" }],
  ["team.yaml", { kind: "team" }],
  ["weights.yaml", { kind: "weights" }],
  ["veto.yaml", { kind: "veto" }],
  ...GRAPH_PHASES.map((phase) => [`graphs/${phase}.yaml`, { kind: "graph", phase }] as const),
  ["graphs/validation.yaml", { kind: "graph", phase: "e2e" }],
]);

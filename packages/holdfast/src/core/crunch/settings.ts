import { count, dictionary, finite, flag, list, nullable, object, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { SEVERITY_SHAPE } from "./conflict-shape.ts";
import type { VetoSeverity } from "./conflict.ts";
import { TEMPLATE_SHAPE } from "./graph-template.ts";
import type { GraphPhase, GraphTemplate } from "./graph-template.ts";
import type { Phase } from "./phase.ts";
import { PHASE_SHAPE, ROLE_SHAPE } from "./team.ts";
import type { Role } from "./team.ts";

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

import { count, flag, list, nullable, object, oneOf, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import type { Priority } from "../graph/graph.ts";
import type { ComplexityLevel } from "./complexity.ts";
import { ROLE_SHAPE } from "./team.ts";
import type { Role } from "./team.ts";

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

export const TEMPLATE_SHAPE: Shape<GraphTemplate> = object<GraphTemplate>({
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

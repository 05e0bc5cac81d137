import * as z from "zod/mini";
import { GRAPH_PHASES } from "../../core/crunch/graph-template.ts";
import { PHASES, parsePhase } from "../../core/crunch/phase.ts";
import { ROLES } from "../../core/crunch/team.ts";
import { milliseconds } from "../amount.ts";
import { choice, count, leaf, model, nonEmpty, whole, yesOrNo } from "../leaf.ts";

/** What may stand in `.holdfast/crunch/`. Times have units, and what is left out keeps its default. */

const PRIORITIES = ["critical", "high", "normal", "low"] as const;
const LEVELS = ["LOW", "MEDIUM", "HIGH", "CRITICAL"] as const;

export const agentsSchema = z.strictObject({
  remove: z.optional(texts("agents")),
  agents: z.optional(
    z.record(
      z.string(),
      z.strictObject({
        role: z.optional(choice(ROLES)),
        phases: z.optional(leaf(`a list of phases: ${GRAPH_PHASES.join(", ")}`, phases)),
        domains: z.optional(texts("domains")),
        keywords: z.optional(texts("words")),
        always: z.optional(yesOrNo()),
        timeout: z.optional(duration()),
        agent: z.optional(model()),
        about: z.optional(leaf("a text", nonEmpty)),
      }),
    ),
  ),
});

export const teamSchema = z.strictObject({
  labelPoints: z.optional(count(0)),
  keywordPoints: z.optional(count(0)),
  leastPoints: z.optional(count(1)),
  fallbackImplementer: z.optional(leaf("an agent's name", nonEmpty)),
});

const weight = z.strictObject({
  base: z.optional(share(10)),
  boost: z.optional(share(10)),
  domains: z.optional(texts("domains")),
});

export const weightsSchema = z.strictObject({
  agents: z.optional(z.record(z.string(), weight)),
  others: z.optional(weight),
  maxRounds: z.optional(
    leaf("1, 2 or 3", (value) => ([1, 2, 3].includes(Number(value)) ? whole(value, 1) : undefined)),
  ),
  margin: z.optional(share(1)),
});

export const vetoSchema = z.record(z.string(), choice(["CRITICAL", "HIGH", "none"]));

const node = z.strictObject({
  id: leaf("a name of letters, digits and hyphens", identifier),
  agent: z.optional(leaf("an agent's name", nonEmpty)),
  role: z.optional(choice(ROLES)),
  action: leaf("an action such as implement or review_code", nonEmpty),
  task: leaf("a text: what the agent is to do", nonEmpty),
  after: z.optional(texts("ids of nodes")),
  priority: z.optional(choice(PRIORITIES)),
  timeout: z.optional(duration()),
  retries: z.optional(count(0)),
  idempotent: z.optional(yesOrNo()),
  edits: z.optional(yesOrNo()),
  outputs: z.optional(texts("names")),
  when: z.optional(
    z.strictObject({
      domains: z.optional(texts("domains")),
      labels: z.optional(texts("labels")),
      complexity: z.optional(choice(LEVELS)),
    }),
  ),
});

const edge = z.strictObject({
  type: choice(["data", "sequence", "approval"]),
  from: leaf("the id of a node", nonEmpty),
  to: leaf("the id of a node", nonEmpty),
  key: z.optional(leaf("a name", nonEmpty)),
  by: z.optional(leaf("who approves", nonEmpty)),
});

export const graphSchema = z.strictObject({ nodes: z.array(node), edges: z.optional(z.array(edge)) });

export type AgentsFile = z.output<typeof agentsSchema>;
export type TeamFile = z.output<typeof teamSchema>;
export type WeightsFile = z.output<typeof weightsSchema>;
export type VetoFile = z.output<typeof vetoSchema>;
export type GraphFile = z.output<typeof graphSchema>;

function identifier(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z0-9][a-z0-9-]{0,62}$/i.test(value) ? value : undefined;
}

function texts(what: string) {
  return leaf(`a list of ${what}`, (value) => {
    if (!Array.isArray(value)) return undefined;
    const found = value.filter((item): item is string => typeof item === "string" && item.trim() !== "");
    return found.length === value.length ? found : undefined;
  });
}

function phases(value: unknown) {
  if (!Array.isArray(value)) return undefined;
  const found = value.map((item) => (typeof item === "string" ? parsePhase(item) : null));
  const known = PHASES.filter((phase) => found.includes(phase));
  return found.includes(null) ? undefined : known;
}

function duration() {
  return leaf("a duration such as 5m", milliseconds);
}

function share(most: number) {
  return leaf(`a number from 0 to ${most}`, (value) =>
    typeof value === "number" && value >= 0 && value <= most ? value : undefined,
  );
}

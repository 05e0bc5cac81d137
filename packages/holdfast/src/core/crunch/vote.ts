import { plainWords } from "./conflict.ts";
import type { ConflictPosition, ConflictScore } from "./conflict.ts";
import type { Weight, WeightRules } from "./settings.ts";

export interface Tally {
  /** One for each position, by agent. */
  readonly scores: readonly ConflictScore[];
  /** What each choice has together, the highest first. */
  readonly totals: readonly { readonly choice: string; readonly total: number }[];
}

/**
 * `(base + boost) × confidence/100 × relevance`, summed up for each choice. The order of the positions makes no difference: numbers with
 * fractions are added in the order of the agents' names.
 */
export function tallyVotes(params: {
  readonly positions: readonly ConflictPosition[];
  readonly domains: readonly string[];
  readonly weights: WeightRules;
}): Tally {
  const scores = params.positions
    .toSorted((a, b) => compare(a.agent, b.agent) || compare(a.choice, b.choice))
    .map((position) => ({
      agent: position.agent,
      choice: position.choice,
      score: scoreOf(position, params),
      evidenceCount: position.evidence.length,
    }));
  const totals = new Map<string, { choice: string; total: number }>();
  for (const { choice, score } of scores) {
    const key = plainWords(choice);
    const known = totals.get(key);
    if (known === undefined) totals.set(key, { choice, total: score });
    else totals.set(key, { choice: known.choice, total: round(known.total + score) });
  }
  const ranked = [...totals.values()].sort((a, b) => b.total - a.total || compare(a.choice, b.choice));
  return { scores, totals: ranked };
}

/** Is the first so near to the second that neither has won? Nobody having anything is a tie too. */
export function isClose(tally: Tally, margin: number): boolean {
  const [first, second] = tally.totals;
  if (first === undefined || first.total <= 0) return true;
  // What is exactly on the line counts as within it, whatever the fractions do.
  return second !== undefined && round(first.total - second.total) <= round(first.total * margin);
}

/** An exact name comes before a pattern, a longer pattern before a shorter one. */
export function weightOf(agent: string, weights: WeightRules): Weight {
  const exact = Object.hasOwn(weights.agents, agent) ? weights.agents[agent] : undefined;
  if (exact !== undefined) return exact;
  const [pattern] = Object.keys(weights.agents)
    .filter((name) => name.endsWith("*") && agent.startsWith(name.slice(0, -1)))
    .sort((a, b) => b.length - a.length);
  return (pattern === undefined ? undefined : weights.agents[pattern]) ?? weights.others;
}

function scoreOf(
  position: ConflictPosition,
  params: { readonly domains: readonly string[]; readonly weights: WeightRules },
): number {
  const weight = weightOf(position.agent, params.weights);
  const atHome = weight.domains.some((domain) => params.domains.includes(domain));
  const confidence = clamp(position.confidence, 100) / 100;
  return round((weight.base + (atHome ? weight.boost : 0)) * confidence * clamp(position.relevance, 1));
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}

/** Enough digits for people, few enough that sums do not depend on their order. */
function round(value: number): number {
  return Math.round(value * 1e9) / 1e9;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

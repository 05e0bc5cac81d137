import { pureSha256 } from "../sha256.ts";
import { plainWords, sameWords } from "./conflict.ts";
import type { Conflict, Recommendation } from "./conflict.ts";
import { domainsInText } from "./domains.ts";
import type { Phase } from "./phase.ts";

/**
 * Recommendations contradict each other when they have the same scope, different choices and can both be acted on. What was
 * a conflict before, among the same agents with the same choices, is not one again: it has been resolved, or is being.
 */
export function detectConflicts(params: {
  readonly recommendations: readonly Recommendation[];
  readonly known: readonly Conflict[];
  readonly phase: Phase;
  /** Domains of the issue; they count where the scope itself names none. */
  readonly domains: readonly string[];
  readonly at: string;
}): readonly Conflict[] {
  const scopes = new Map<string, Recommendation[]>();
  for (const one of params.recommendations.filter((each) => each.actionable && plainWords(each.scope) !== "")) {
    const key = plainWords(one.scope);
    scopes.set(key, [...(scopes.get(key) ?? []), one]);
  }
  const seen = new Set(params.known.map((conflict) => fingerprint(conflict.recommendations)));
  return [...scopes.values()]
    .map((group) => newestOfEach(group))
    .filter((group) => group.some((one) => !sameWords(one.choice, group[0]?.choice ?? "")))
    .filter((group) => !seen.has(fingerprint(group)))
    .map((group) => conflictOf(group, params));
}

/** An agent that said two things about one scope means the later one. By name, so that the order of arrival is nothing. */
function newestOfEach(group: readonly Recommendation[]): readonly Recommendation[] {
  const newest = new Map(group.map((one) => [one.agent, one]));
  return [...newest.values()].sort((a, b) => (a.agent < b.agent ? -1 : 1));
}

function conflictOf(
  group: readonly Recommendation[],
  params: { readonly phase: Phase; readonly domains: readonly string[]; readonly at: string },
): Conflict {
  const choices = group.map((one) => one.choice);
  const topic = group[0]?.scope.trim() ?? "";
  const named = domainsInText([topic, ...choices].join("\n"));
  return {
    id: `CONF-${params.at.slice(0, 19).replaceAll(/[-:]/g, "")}-${fingerprint(group).slice(0, 8)}`,
    topic,
    phase: params.phase,
    detectedAt: params.at,
    domains: named.length > 0 ? named : params.domains,
    participants: group.map((one) => one.agent),
    choices: choices.filter((choice, index) => choices.findIndex((one) => sameWords(one, choice)) === index),
    recommendations: group,
    rounds: [],
    escalation: null,
    resolution: null,
  };
}

function fingerprint(group: readonly Recommendation[]): string {
  const sides = group.map((one) => [one.agent, plainWords(one.scope), plainWords(one.choice)]);
  return pureSha256(JSON.stringify(sides.map((side) => JSON.stringify(side)).toSorted()));
}

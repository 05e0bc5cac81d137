// Conflicts between agents: detection, debate rounds, vetoes, the weighted vote and escalation to the user. All
// decisions are pure.

import { sha256 } from "@holdfast/core/json";
import {
  type Conflict,
  type ConflictPosition,
  type ConflictScore,
  type EscalationReason,
  type Recommendation,
  type Resolution,
  type VetoSeverity,
  clamp,
  equalText,
  normalizeText,
} from "./messages.ts";
import type { Phase } from "./phases.ts";
import { domainsInText } from "./plan-team.ts";
import type { VetoRules, Weight, WeightRules } from "./settings.ts";

/** The resolution without what only the caller knows: its time and its knowledge entry. */
export type ConflictOutcome = Omit<Resolution, "at" | "knowledge">;

export type ConflictStep =
  | { readonly kind: "ask_positions"; readonly agents: readonly string[]; readonly round: number }
  | { readonly kind: "resolve"; readonly ruling: ConflictOutcome }
  | {
      readonly kind: "escalate";
      readonly reason: EscalationReason;
      readonly question: string;
      readonly options: readonly string[];
    }
  | { readonly kind: "settled"; readonly resolution: Resolution };

interface ConflictRules {
  readonly weights: WeightRules;
  readonly veto: VetoRules;
}

/**
 * Decides the next step of a conflict from its record alone, so that a run that crashed during a debate continues
 * identically. Vetoes take precedence. Agreement or a compromise resolves the conflict. If no agent changes its choice
 * any more, the vote decides. If the last round brings no convergence, the user decides.
 */
export function nextConflictStep(conflict: Conflict, rules: ConflictRules): ConflictStep {
  if (conflict.resolution !== null) return { kind: "settled", resolution: conflict.resolution };
  if (conflict.escalation !== null) {
    const { reason, question, options } = conflict.escalation;
    return { kind: "escalate", reason, question, options };
  }
  const round = conflict.rounds.length;
  if (round === 0) return { kind: "ask_positions", agents: conflict.participants, round: 1 };
  const positions = positionsAfter(conflict, round);
  const tally = tallyVotes({ positions, domains: conflict.domains, weights: rules.weights });
  const vetoed = byVeto({ conflict, positions, tally, rules });
  if (vetoed !== null) return vetoed;
  const wish = positions.find((position) => position.escalate !== null);
  if (wish?.escalate != null) return escalate(conflict, wish.escalate, `${wish.agent} asks for it`);
  const agreed = byAgreement(positions, tally);
  if (agreed !== null) return { kind: "resolve", ruling: agreed };
  if (isSettledIn(conflict, positions)) return byVote({ conflict, positions, tally, rules });
  if (round < Math.min(rules.weights.maxRounds, MAX_ROUNDS)) {
    return { kind: "ask_positions", agents: conflict.participants, round: round + 1 };
  }
  return escalate(conflict, "no_convergence", `${round} rounds brought no agreement`);
}

/** Upper bound of rounds; no setting can raise it. */
const MAX_ROUNDS = 3;

/** The user's answer to an escalated conflict. The user may choose what no agent proposed. */
export function decideByUser(
  conflict: Conflict,
  params: { readonly choice: string; readonly by: string; readonly rules: ConflictRules },
): ConflictOutcome {
  const positions = positionsAfter(conflict, conflict.rounds.length);
  const tally = tallyVotes({ positions, domains: conflict.domains, weights: params.rules.weights });
  const veto = decisiveVeto(positions, params.rules.veto);
  const wanted = veto.kind === "ask" ? veto.position.choice : tally.totals[0]?.choice;
  return ruling({
    how: "person",
    choice: params.choice,
    positions,
    tally,
    reasoning: `${params.by} decided`,
    userOverride: wanted !== undefined && !equalText(wanted, params.choice),
  });
}

/**
 * Each participant's position after a round, sorted by agent name. An agent that was silent keeps its previous
 * position. An agent that never spoke keeps its recommendation, so that no view is lost because an agent failed to
 * repeat it.
 */
export function positionsAfter(conflict: Conflict, round: number): readonly ConflictPosition[] {
  const spoken = conflict.rounds.slice(0, round).flat().toReversed();
  return conflict.participants
    .toSorted()
    .flatMap((agent) => spoken.find((position) => position.agent === agent) ?? recommended(conflict, agent) ?? []);
}

function recommended(conflict: Conflict, agent: string): ConflictPosition | undefined {
  const own = conflict.recommendations.find((one) => one.agent === agent);
  return own === undefined
    ? undefined
    : {
        agent,
        choice: own.choice,
        rationale: own.rationale,
        evidence: [],
        confidence: own.confidence,
        relevance: 1,
        compromise: { acceptable: false, conditions: [], hybrid: null },
        veto: null,
        escalate: null,
      };
}

interface Debated {
  readonly conflict: Conflict;
  readonly positions: readonly ConflictPosition[];
  readonly tally: Tally;
  readonly rules: ConflictRules;
}

function byVeto({ conflict, positions, tally, rules }: Debated): ConflictStep | null {
  const veto = decisiveVeto(positions, rules.veto);
  switch (veto.kind) {
    case "none":
      return null;
    case "apply": {
      const { agent, choice } = veto.position;
      const reasoning = `${agent} vetoed with severity CRITICAL: ${veto.position.veto?.reason ?? ""}`;
      return {
        kind: "resolve",
        ruling: ruling({ how: "veto", choice, winner: agent, positions, tally, reasoning }),
      };
    }
    case "ask":
      return escalate(conflict, "high_veto", `${veto.position.agent} vetoed: ${veto.position.veto?.reason ?? ""}`);
    case "opposed":
      return escalate(conflict, "opposed_vetoes", `${names(veto.positions)} vetoed each other's choices`);
  }
}

/** Finds a choice that every participant made or accepts. Prefers the choice with the highest total weight. */
function byAgreement(positions: readonly ConflictPosition[], tally: Tally): ConflictOutcome | null {
  const [first] = positions;
  if (first === undefined) return null;
  if (positions.every((position) => equalText(position.choice, first.choice))) {
    return ruling({ how: "agreement", choice: first.choice, positions, tally, reasoning: "all chose the same" });
  }
  const hybrids = positions.flatMap((position) => position.compromise.hybrid ?? []).toSorted();
  const candidates = [...tally.totals.map((total) => total.choice), ...hybrids];
  const choice = candidates.find((candidate) => positions.every((position) => accepts(position, candidate)));
  if (choice === undefined) return null;
  const reasoning = "all chose it or accepted it as a compromise";
  return ruling({ how: "compromise", choice, positions, tally, reasoning });
}

function accepts(position: ConflictPosition, choice: string): boolean {
  if (equalText(position.choice, choice)) return true;
  const { acceptable, hybrid } = position.compromise;
  return acceptable && (hybrid === null || equalText(hybrid, choice));
}

/** Whether no agent changed its choice since the previous round. Another round would then change nothing. */
function isSettledIn(conflict: Conflict, positions: readonly ConflictPosition[]): boolean {
  if (conflict.rounds.length < 2) return false;
  const before = positionsAfter(conflict, conflict.rounds.length - 1);
  return positions.every((position) => {
    const earlier = before.find((one) => one.agent === position.agent);
    return earlier !== undefined && equalText(earlier.choice, position.choice);
  });
}

function byVote({ conflict, positions, tally, rules }: Debated): ConflictStep {
  const [first] = tally.totals;
  if (first === undefined || isClose(tally, rules.weights.margin)) {
    return escalate(conflict, "close_vote", "the vote is too close to decide it");
  }
  const shares = tally.totals.map(({ choice, total }) => `${choice} ${total}`).join(", ");
  const reasoning = `no agent changed its choice, and the vote was clear: ${shares}`;
  return { kind: "resolve", ruling: ruling({ how: "vote", choice: first.choice, positions, tally, reasoning }) };
}

function escalate(conflict: Conflict, reason: EscalationReason, why: string): ConflictStep {
  const question = `The agents disagree about ${conflict.topic}, and ${why.trimEnd().replace(/\.$/, "")}. Which shall it be?`;
  const offered = [...conflict.choices, ...positionsAfter(conflict, conflict.rounds.length).map((one) => one.choice)];
  const options = offered.filter((choice, index) => offered.findIndex((one) => equalText(one, choice)) === index);
  return { kind: "escalate", reason, question, options };
}

function ruling(params: {
  readonly how: Resolution["how"];
  readonly choice: string;
  readonly winner?: string;
  readonly positions: readonly ConflictPosition[];
  readonly tally: Tally;
  readonly reasoning: string;
  readonly userOverride?: boolean;
}): ConflictOutcome {
  const { positions, tally, choice } = params;
  const behind = tally.scores.filter((score) => equalText(score.choice, choice));
  const [strongest] = behind.toSorted((a, b) => b.score - a.score || (a.agent < b.agent ? -1 : 1));
  const against = positions.filter((position) => !equalText(position.choice, choice));
  return {
    how: params.how,
    choice,
    winner: params.winner ?? strongest?.agent ?? null,
    reasoning: params.reasoning,
    conditions: [...new Set(positions.flatMap((one) => (accepts(one, choice) ? one.compromise.conditions : [])))],
    scores: tally.scores,
    vetoApplied: params.how === "veto",
    userOverride: params.userOverride ?? false,
    dissent: against.map((one) => ({ agent: one.agent, choice: one.choice, note: one.rationale })),
  };
}

function names(positions: readonly ConflictPosition[]): string {
  return positions.map((position) => position.agent).join(" and ");
}

type JudgedVeto =
  | { readonly kind: "none" }
  | { readonly kind: "held"; readonly severity: VetoSeverity }
  | { readonly kind: "refused"; readonly why: string };

/** Checks a veto claim: the rules define which agents have a veto and its maximum severity. */
export function judgeVeto(position: ConflictPosition, rules: VetoRules): JudgedVeto {
  const { veto, agent } = position;
  if (veto === null) return { kind: "none" };
  const most = Object.hasOwn(rules, agent) ? rules[agent] : undefined;
  if (most === undefined) return { kind: "refused", why: `${agent} has no veto` };
  if (equalText(veto.target, position.choice)) return { kind: "refused", why: `${agent} vetoed its own choice` };
  return { kind: "held", severity: most === "HIGH" ? "HIGH" : veto.severity };
}

type DecisiveVeto =
  | { readonly kind: "none" }
  /** CRITICAL: the vetoing agent's choice applies immediately, and no one can override it. */
  | { readonly kind: "apply"; readonly position: ConflictPosition }
  /** HIGH: the user decides. */
  | { readonly kind: "ask"; readonly position: ConflictPosition }
  /** CRITICAL vetoes for different choices cannot all apply. */
  | { readonly kind: "opposed"; readonly positions: readonly ConflictPosition[] };

/** Evaluates the vetoes among these positions, independent of their order. */
export function decisiveVeto(positions: readonly ConflictPosition[], rules: VetoRules): DecisiveVeto {
  const held = (severity: VetoSeverity): readonly ConflictPosition[] =>
    positions
      .filter((position) => {
        const judged = judgeVeto(position, rules);
        return judged.kind === "held" && judged.severity === severity;
      })
      .toSorted((a, b) => (a.agent < b.agent ? -1 : 1));
  const critical = held("CRITICAL");
  const [first] = critical;
  if (first !== undefined) {
    const agreed = critical.every((position) => equalText(position.choice, first.choice));
    return agreed ? { kind: "apply", position: first } : { kind: "opposed", positions: critical };
  }
  const [high] = held("HIGH");
  return high === undefined ? { kind: "none" } : { kind: "ask", position: high };
}

interface Tally {
  /** One score per position, sorted by agent. */
  readonly scores: readonly ConflictScore[];
  /** The sum for each choice, highest first. */
  readonly totals: readonly { readonly choice: string; readonly total: number }[];
}

/**
 * Scores each position as `(base + boost) × confidence/100 × relevance` and sums the scores per choice. The result does
 * not depend on the order of the positions: fractions are added in the order of the agents' names.
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
    const key = normalizeText(choice);
    const known = totals.get(key);
    if (known === undefined) totals.set(key, { choice, total: score });
    else totals.set(key, { choice: known.choice, total: round(known.total + score) });
  }
  const ranked = [...totals.values()].sort((a, b) => b.total - a.total || compare(a.choice, b.choice));
  return { scores, totals: ranked };
}

/** Whether the first choice is too close to the second to win. A tally without any points is a tie too. */
export function isClose(tally: Tally, margin: number): boolean {
  const [first, second] = tally.totals;
  if (first === undefined || first.total <= 0) return true;
  // A difference exactly at the margin counts as close; rounding removes floating-point errors.
  return second !== undefined && round(first.total - second.total) <= round(first.total * margin);
}

/** An exact name takes precedence over a pattern, and a longer pattern over a shorter one. */
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

/** Enough digits for people, few enough that sums do not depend on their order. */
function round(value: number): number {
  return Math.round(value * 1e9) / 1e9;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Recommendations conflict if they have the same scope, different choices and are actionable. A known conflict with the
 * same agents and choices is not reported again: it is resolved or in progress.
 */
export function detectConflicts(params: {
  readonly recommendations: readonly Recommendation[];
  readonly known: readonly Conflict[];
  readonly phase: Phase;
  /** Domains of the issue, used if the scope itself names none. */
  readonly domains: readonly string[];
  readonly at: string;
}): readonly Conflict[] {
  const scopes = new Map<string, Recommendation[]>();
  for (const one of params.recommendations.filter((each) => each.actionable && normalizeText(each.scope) !== "")) {
    const key = normalizeText(one.scope);
    scopes.set(key, [...(scopes.get(key) ?? []), one]);
  }
  const seen = new Set(params.known.map((conflict) => fingerprint(conflict.recommendations)));
  return [...scopes.values()]
    .map((group) => newestOfEach(group))
    .filter((group) => group.some((one) => !equalText(one.choice, group[0]?.choice ?? "")))
    .filter((group) => !seen.has(fingerprint(group)))
    .map((group) => conflictOf(group, params));
}

/**
 * Keeps each agent's latest recommendation for a scope. Sorts by agent name, so that the order of arrival does not
 * matter.
 */
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
    choices: choices.filter((choice, index) => choices.findIndex((one) => equalText(one, choice)) === index),
    recommendations: group,
    rounds: [],
    escalation: null,
    resolution: null,
  };
}

function fingerprint(group: readonly Recommendation[]): string {
  const sides = group.map((one) => [one.agent, normalizeText(one.scope), normalizeText(one.choice)]);
  return sha256(JSON.stringify(sides.map((side) => JSON.stringify(side)).toSorted()));
}

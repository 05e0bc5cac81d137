import { sameWords } from "./conflict.ts";
import type { Conflict, ConflictPosition, EscalationReason, Resolution } from "./conflict.ts";
import type { VetoRules, WeightRules } from "./settings.ts";
import { standingVeto } from "./veto.ts";
import { isClose, tallyVotes } from "./vote.ts";
import type { Tally } from "./vote.ts";

/** How it ends, but for what only the caller knows: when, and under which entry it is kept. */
export type Ruling = Omit<Resolution, "at" | "knowledge">;

export type ConflictStep =
  | { readonly kind: "ask_positions"; readonly agents: readonly string[]; readonly round: number }
  | { readonly kind: "resolve"; readonly ruling: Ruling }
  | {
      readonly kind: "escalate";
      readonly reason: EscalationReason;
      readonly question: string;
      readonly options: readonly string[];
    }
  | { readonly kind: "settled"; readonly resolution: Resolution };

export interface ConflictRules {
  readonly weights: WeightRules;
  readonly veto: VetoRules;
}

/**
 * What happens next with a conflict: nothing but its record decides, so that a run which died in the middle of a debate
 * goes on where it was. Vetoes come first. Then agreement or a compromise ends it; when nobody moves any more the vote does; when
 * they still move after the last round, a person must.
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

/** No setting makes a debate longer than this. */
const MAX_ROUNDS = 3;

/** The answer of a person to an escalated conflict. They may choose what nobody proposed. */
export function decideByPerson(
  conflict: Conflict,
  params: { readonly choice: string; readonly by: string; readonly rules: ConflictRules },
): Ruling {
  const positions = positionsAfter(conflict, conflict.rounds.length);
  const tally = tallyVotes({ positions, domains: conflict.domains, weights: params.rules.weights });
  const veto = standingVeto(positions, params.rules.veto);
  const wanted = veto.kind === "ask" ? veto.position.choice : tally.totals[0]?.choice;
  return ruling({
    how: "person",
    choice: params.choice,
    positions,
    tally,
    reasoning: `${params.by} decided`,
    userOverride: wanted !== undefined && !sameWords(wanted, params.choice),
  });
}

/**
 * What each participant stands for after a round, by name. Who was silent in it stands where it stood before, and who never spoke
 * stands for what it recommended: a view is not lost because an agent failed to repeat it.
 */
export function positionsAfter(conflict: Conflict, round: number): readonly ConflictPosition[] {
  const heard = conflict.rounds.slice(0, round).flat().toReversed();
  return conflict.participants
    .toSorted()
    .flatMap((agent) => heard.find((position) => position.agent === agent) ?? recommended(conflict, agent) ?? []);
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
  const veto = standingVeto(positions, rules.veto);
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

/** A choice that every participant has made or can live with; of several the one with the most weight behind it. */
function byAgreement(positions: readonly ConflictPosition[], tally: Tally): Ruling | null {
  const [first] = positions;
  if (first === undefined) return null;
  if (positions.every((position) => sameWords(position.choice, first.choice))) {
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
  if (sameWords(position.choice, choice)) return true;
  const { acceptable, hybrid } = position.compromise;
  return acceptable && (hybrid === null || sameWords(hybrid, choice));
}

/** Has nobody changed its mind since the round before? Then another round would bring nothing. */
function isSettledIn(conflict: Conflict, positions: readonly ConflictPosition[]): boolean {
  if (conflict.rounds.length < 2) return false;
  const before = positionsAfter(conflict, conflict.rounds.length - 1);
  return positions.every((position) => {
    const earlier = before.find((one) => one.agent === position.agent);
    return earlier !== undefined && sameWords(earlier.choice, position.choice);
  });
}

function byVote({ conflict, positions, tally, rules }: Debated): ConflictStep {
  const [first] = tally.totals;
  if (first === undefined || isClose(tally, rules.weights.margin)) {
    return escalate(conflict, "close_vote", "the vote is too close to decide it");
  }
  const shares = tally.totals.map(({ choice, total }) => `${choice} ${total}`).join(", ");
  const reasoning = `nobody moved any more, and the vote was clear: ${shares}`;
  return { kind: "resolve", ruling: ruling({ how: "vote", choice: first.choice, positions, tally, reasoning }) };
}

function escalate(conflict: Conflict, reason: EscalationReason, why: string): ConflictStep {
  const question = `The agents disagree about ${conflict.topic}, and ${why}. Which shall it be?`;
  const offered = [...conflict.choices, ...positionsAfter(conflict, conflict.rounds.length).map((one) => one.choice)];
  const options = offered.filter((choice, index) => offered.findIndex((one) => sameWords(one, choice)) === index);
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
}): Ruling {
  const { positions, tally, choice } = params;
  const behind = tally.scores.filter((score) => sameWords(score.choice, choice));
  const [strongest] = behind.toSorted((a, b) => b.score - a.score || (a.agent < b.agent ? -1 : 1));
  const against = positions.filter((position) => !sameWords(position.choice, choice));
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

import { pureSha256 } from "../sha256.ts";
import { sameWords } from "./conflict.ts";
import type { Conflict, ConflictPosition, VetoRecord, VetoSeverity } from "./conflict.ts";
import type { VetoRules } from "./settings.ts";

export type JudgedVeto =
  | { readonly kind: "none" }
  | { readonly kind: "held"; readonly severity: VetoSeverity }
  | { readonly kind: "refused"; readonly why: string };

/** What a claim is worth: agents may claim what they like, the rules say who has a veto and how severe it can be. */
export function judgeVeto(position: ConflictPosition, rules: VetoRules): JudgedVeto {
  const { veto, agent } = position;
  if (veto === null) return { kind: "none" };
  const most = Object.hasOwn(rules, agent) ? rules[agent] : undefined;
  if (most === undefined) return { kind: "refused", why: `${agent} has no veto` };
  if (sameWords(veto.target, position.choice)) return { kind: "refused", why: `${agent} vetoed its own choice` };
  return { kind: "held", severity: most === "HIGH" ? "HIGH" : veto.severity };
}

export type StandingVeto =
  | { readonly kind: "none" }
  /** CRITICAL: its choice is taken at once, and nobody can override it. */
  | { readonly kind: "apply"; readonly position: ConflictPosition }
  /** HIGH: a person decides. */
  | { readonly kind: "ask"; readonly position: ConflictPosition }
  /** CRITICAL ones that want different things cannot all apply. */
  | { readonly kind: "opposed"; readonly positions: readonly ConflictPosition[] };

/** What the vetoes among these positions come to; the order of the positions makes no difference. */
export function standingVeto(positions: readonly ConflictPosition[], rules: VetoRules): StandingVeto {
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
    const agreed = critical.every((position) => sameWords(position.choice, first.choice));
    return agreed ? { kind: "apply", position: first } : { kind: "opposed", positions: critical };
  }
  const [high] = held("HIGH");
  return high === undefined ? { kind: "none" } : { kind: "ask", position: high };
}

/** Every claim of a veto and what became of it. Derived from the conflicts, so that the log can never disagree with them. */
export function vetoLog(conflicts: readonly Conflict[], rules: VetoRules): readonly VetoRecord[] {
  const log: VetoRecord[] = [];
  for (const conflict of conflicts) {
    conflict.rounds.forEach((positions, index) => {
      for (const position of positions) {
        const judged = judgeVeto(position, rules);
        if (position.veto === null || judged.kind === "none") continue;
        log.push({
          id: vetoId(conflict, position.agent, index),
          conflict: conflict.id,
          agent: position.agent,
          severity: judged.kind === "held" ? judged.severity : position.veto.severity,
          target: position.veto.target,
          reason: position.veto.reason,
          at: conflict.resolution?.at ?? conflict.escalation?.at ?? conflict.detectedAt,
          ...(judged.kind === "refused" ? REFUSED : outcomeOf(conflict, position)),
        });
      }
    });
  }
  return log;
}

export function vetoStatistics(log: readonly VetoRecord[]): Readonly<Record<VetoRecord["outcome"], number>> {
  const totals = { applied: 0, waiting: 0, upheld: 0, overridden: 0, refused: 0 };
  for (const { outcome } of log) totals[outcome] += 1;
  return totals;
}

type Outcome = Pick<VetoRecord, "outcome" | "overrideBy">;

const REFUSED: Outcome = { outcome: "refused", overrideBy: null };

function outcomeOf(conflict: Conflict, position: ConflictPosition): Outcome {
  const { resolution } = conflict;
  if (resolution === null) return { outcome: "waiting", overrideBy: null };
  const won = sameWords(resolution.choice, position.choice);
  if (resolution.how === "veto" && won) return { outcome: "applied", overrideBy: null };
  if (won) return { outcome: "upheld", overrideBy: null };
  return { outcome: "overridden", overrideBy: resolution.how === "person" ? "user" : resolution.winner };
}

function vetoId(conflict: Conflict, agent: string, index: number): string {
  const hash = pureSha256(JSON.stringify([conflict.id, agent, index])).slice(0, 4);
  return `VETO-${conflict.detectedAt.slice(0, 10).replaceAll("-", "")}-${hash}`;
}

import type { EscalationWish } from "./message.ts";
import type { Phase } from "./phase.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

/** What an agent's answer says should be done about something. */
export type Recommendation = {
  readonly agent: string;
  readonly node: string;
  /** What it is about: a file, a component, a decision. Those with the same scope can contradict each other. */
  readonly scope: string;
  readonly choice: string;
  readonly rationale: string;
  /** 0 to 100. */
  readonly confidence: number;
  /** Can it be acted on as it stands? Remarks cannot, and contradict nobody. */
  readonly actionable: boolean;
};

export type VetoSeverity = "CRITICAL" | "HIGH";
export type VetoClaim = { readonly severity: VetoSeverity; readonly target: string; readonly reason: string };

export type Compromise = {
  readonly acceptable: boolean;
  readonly conditions: readonly string[];
  /** A choice of its own that would do; null: whatever the others choose. */
  readonly hybrid: string | null;
};

/** What one agent said in one round of a debate. */
export type ConflictPosition = {
  readonly agent: string;
  readonly choice: string;
  readonly rationale: string;
  readonly evidence: readonly string[];
  readonly confidence: number;
  /** 0 to 1: how much the matter belongs to what the agent knows. */
  readonly relevance: number;
  readonly compromise: Compromise;
  readonly veto: VetoClaim | null;
  readonly escalate: EscalationWish | null;
};

export type EscalationReason = "high_veto" | "opposed_vetoes" | "close_vote" | "no_convergence" | EscalationWish;

export type Escalation = {
  readonly reason: EscalationReason;
  readonly question: string;
  readonly options: readonly string[];
  readonly at: string;
};

export type ConflictScore = {
  readonly agent: string;
  readonly choice: string;
  readonly score: number;
  readonly evidenceCount: number;
};

export type Resolution = {
  readonly how: "agreement" | "compromise" | "vote" | "veto" | "person";
  readonly choice: string;
  /** Whose choice it was; null when it was nobody's own. */
  readonly winner: string | null;
  readonly reasoning: string;
  readonly conditions: readonly string[];
  readonly scores: readonly ConflictScore[];
  readonly vetoApplied: boolean;
  readonly userOverride: boolean;
  readonly dissent: readonly { readonly agent: string; readonly choice: string; readonly note: string }[];
  readonly at: string;
  /** The entry that keeps it for later runs, once it was captured. */
  readonly knowledge: string | null;
};

export type Conflict = {
  /** CONF-{date and time}-{hash} */
  readonly id: string;
  readonly topic: string;
  readonly phase: Phase;
  readonly detectedAt: string;
  readonly domains: readonly string[];
  readonly participants: readonly string[];
  readonly choices: readonly string[];
  readonly recommendations: readonly Recommendation[];
  /** What was said, round by round; each has at most one position an agent. */
  readonly rounds: readonly (readonly ConflictPosition[])[];
  readonly escalation: Escalation | null;
  readonly resolution: Resolution | null;
};

/** One line of the veto log. */
export type VetoRecord = {
  readonly id: string;
  readonly conflict: string;
  readonly agent: string;
  readonly severity: VetoSeverity;
  readonly target: string;
  readonly reason: string;
  readonly at: string;
  /** "refused": the agent has no right to it; "overridden": a person decided otherwise, which only a HIGH one allows. */
  readonly outcome: "applied" | "waiting" | "upheld" | "overridden" | "refused";
  readonly overrideBy: string | null;
};

/** Choices and scopes are compared as people read them. */
export function sameWords(one: string, other: string): boolean {
  return plainWords(one) === plainWords(other);
}

export function plainWords(text: string): string {
  return text.normalize("NFKC").trim().toLowerCase().replaceAll(/\s+/g, " ");
}

import { count, finite, flag, list, nullable, object, oneOf, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import type {
  Compromise,
  Conflict,
  ConflictPosition,
  ConflictScore,
  Escalation,
  EscalationReason,
  Recommendation,
  Resolution,
  VetoClaim,
  VetoSeverity,
} from "./conflict.ts";
import type { EscalationWish } from "./message.ts";
import { within } from "./number-shape.ts";
import { PHASE_SHAPE } from "./team.ts";

const TEXTS = list(text);

export const SEVERITY_SHAPE: Shape<VetoSeverity> = oneOf<VetoSeverity>({ CRITICAL: true, HIGH: true });

export const VETO_SHAPE: Shape<VetoClaim> = object<VetoClaim>({ severity: SEVERITY_SHAPE, target: text, reason: text });

export const COMPROMISE_SHAPE: Shape<Compromise> = object<Compromise>({
  acceptable: flag,
  conditions: TEXTS,
  hybrid: nullable(text),
});

export const WISH_SHAPE: Shape<EscalationWish> = oneOf<EscalationWish>({
  no_precedent: true,
  business_impact: true,
  explicit_request: true,
});

const RECOMMENDATION_SHAPE: Shape<Recommendation> = object<Recommendation>({
  agent: text,
  node: text,
  scope: text,
  choice: text,
  rationale: text,
  confidence: within(0, 100),
  actionable: flag,
});

export const POSITION_SHAPE: Shape<ConflictPosition> = object<ConflictPosition>({
  agent: text,
  choice: text,
  rationale: text,
  evidence: TEXTS,
  confidence: within(0, 100),
  relevance: within(0, 1),
  compromise: COMPROMISE_SHAPE,
  veto: nullable(VETO_SHAPE),
  escalate: nullable(WISH_SHAPE),
});

export const ESCALATION_SHAPE: Shape<Escalation> = object<Escalation>({
  reason: oneOf<EscalationReason>({
    high_veto: true,
    opposed_vetoes: true,
    close_vote: true,
    no_convergence: true,
    no_precedent: true,
    business_impact: true,
    explicit_request: true,
  }),
  question: text,
  options: TEXTS,
  at: text,
});

export const RESOLUTION_SHAPE: Shape<Resolution> = object<Resolution>({
  how: oneOf<Resolution["how"]>({ agreement: true, compromise: true, vote: true, veto: true, person: true }),
  choice: text,
  winner: nullable(text),
  reasoning: text,
  conditions: TEXTS,
  scores: list(object<ConflictScore>({ agent: text, choice: text, score: finite, evidenceCount: count })),
  vetoApplied: flag,
  userOverride: flag,
  dissent: list(object<Resolution["dissent"][number]>({ agent: text, choice: text, note: text })),
  at: text,
  knowledge: nullable(text),
});

export const CONFLICT_SHAPE: Shape<Conflict> = object<Conflict>({
  id: text,
  topic: text,
  phase: PHASE_SHAPE,
  detectedAt: text,
  domains: TEXTS,
  participants: TEXTS,
  choices: TEXTS,
  recommendations: list(RECOMMENDATION_SHAPE),
  rounds: list(list(POSITION_SHAPE)),
  escalation: nullable(ESCALATION_SHAPE),
  resolution: nullable(RESOLUTION_SHAPE),
});

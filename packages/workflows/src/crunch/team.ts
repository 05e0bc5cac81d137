// The team of a crunch run: its members, their tasks, and the complexity score of the issue.

import {
  type Shape,
  type TypeOf,
  anyOf,
  count,
  dictionary,
  finite,
  flag,
  list,
  object,
  optional,
  text,
} from "@holdfast/core/json";
import { PHASES, type Phase } from "./phases.ts";

export const ROLES = ["coordinator", "supervisor", "implementer", "quality", "context"] as const;
export type Role = (typeof ROLES)[number];

type MemberStatus = "active" | "blocked" | "waiting" | "idle";

type MemberCounts = {
  readonly status: MemberStatus;
  readonly completed: number;
  readonly pending: number;
  readonly failed: number;
};

/** Counts a member's tasks. An active task counts as pending because it is not done. */
export function memberCounts(team: Team, agent: string): MemberCounts {
  const own = Object.values(team.tasks).filter((task) => task.agent === agent);
  const having = (...statuses: readonly TaskStatus[]): number =>
    own.filter((task) => statuses.includes(task.status)).length;
  const status = having("active") > 0 ? "active" : having("blocked") > 0 ? "blocked" : "waiting";
  const pending = having("pending", "active", "blocked");
  return {
    status: pending === 0 ? "idle" : status,
    completed: having("completed"),
    pending,
    failed: having("failed"),
  };
}

/** The members with a role that work in a phase. */
export function membersIn(team: Team, params: { readonly role: Role; readonly phase: Phase }): readonly string[] {
  return team.members
    .filter((member) => member.role === params.role && member.phases.includes(params.phase))
    .map((member) => member.agent);
}

export const PHASE_SHAPE = anyOf(PHASES);
export const ROLE_SHAPE = anyOf(ROLES);
const STATUS_SHAPE = anyOf(["pending", "active", "completed", "failed", "blocked", "skipped"]);
export type TaskStatus = TypeOf<typeof STATUS_SHAPE>;

/** The work of one node, from the team's view. */
export const TEAM_TASK = { agent: text, phase: PHASE_SHAPE, status: STATUS_SHAPE } as const;

export const COMPLEXITY_LEVELS = ["LOW", "MEDIUM", "HIGH", "CRITICAL"] as const;
export type ComplexityLevel = (typeof COMPLEXITY_LEVELS)[number];

const COMPLEXITY_SHAPE = object({
  score: count,
  level: anyOf(COMPLEXITY_LEVELS),
  factors: object({
    multiDomain: flag,
    fileCount: flag,
    securityInvolved: flag,
    breakingChange: flag,
    priorFailures: flag,
  }),
});
type Complexity = TypeOf<typeof COMPLEXITY_SHAPE>;
type ComplexityFactors = Complexity["factors"];

const MEMBER_SHAPE = object({
  agent: text,
  role: ROLE_SHAPE,
  phases: list(PHASE_SHAPE),
  /** How strongly the issue selects this agent, from 0 to 100. */
  routingScore: finite,
});
export type TeamMember = TypeOf<typeof MEMBER_SHAPE>;

const TASK_SHAPE = object(TEAM_TASK);
export const TEAM_SHAPE: Shape<Team> = object<Team>({
  id: text,
  issue: count,
  complexity: COMPLEXITY_SHAPE,
  domains: list(text),
  languages: optional(list(text)),
  members: list(MEMBER_SHAPE),
  tasks: dictionary(TASK_SHAPE),
});
export type Team = {
  /** Format: TEAM-YYYYMMDD-hash4. */
  readonly id: string;
  readonly issue: number;
  readonly complexity: Complexity;
  readonly domains: readonly string[];
  /** Languages of the repository, most frequent first. Absent: not determined. */
  readonly languages?: readonly string[];
  readonly members: readonly TeamMember[];
  /** Tasks by name. All counts are derived from it, so that nothing is counted twice. */
  readonly tasks: Readonly<Record<string, TypeOf<typeof TASK_SHAPE>>>;
};

export interface ComplexitySigns {
  readonly domains: readonly string[];
  /** Estimated number of files that the work changes. */
  readonly files: number;
  readonly breaking: boolean;
  readonly priorFailures: number;
}

const POINTS: Readonly<Record<keyof ComplexityFactors, number>> = {
  multiDomain: 2,
  fileCount: 1,
  securityInvolved: 3,
  breakingChange: 2,
  priorFailures: 2,
};

export function scoreComplexity(signs: ComplexitySigns): Complexity {
  const factors: ComplexityFactors = {
    multiDomain: new Set(signs.domains).size >= 2,
    fileCount: signs.files >= 10,
    securityInvolved: signs.domains.includes("security"),
    breakingChange: signs.breaking,
    priorFailures: signs.priorFailures >= 1,
  };
  let score = 0;
  if (factors.multiDomain) score += POINTS.multiDomain;
  if (factors.fileCount) score += POINTS.fileCount;
  if (factors.securityInvolved) score += POINTS.securityInvolved;
  if (factors.breakingChange) score += POINTS.breakingChange;
  if (factors.priorFailures) score += POINTS.priorFailures;
  return { score, level: levelOf(score), factors };
}

function levelOf(score: number): ComplexityLevel {
  if (score < 3) return "LOW";
  if (score < 5) return "MEDIUM";
  return score < 8 ? "HIGH" : "CRITICAL";
}

/** Whether the team needs a member that only coordinates. */
export function needsOrchestrator(params: {
  readonly score: number;
  readonly domains: readonly string[];
  /** Whether the issue has the label `complex`. */
  readonly complex: boolean;
  readonly priorFailures: number;
}): boolean {
  return params.score >= 5 || new Set(params.domains).size >= 2 || params.complex || params.priorFailures >= 1;
}

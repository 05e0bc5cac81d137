// The team of a crunch run: its members, their tasks, and the complexity score of the issue. The types are aliases
// because TypeScript does not accept an interface as a JSON object.

import { type Shape, count, dictionary, finite, flag, list, object, oneOf, text } from "@holdfast/core/json";
import type { Phase } from "./phases.ts";

export const ROLES = ["coordinator", "supervisor", "implementer", "quality", "context"] as const;
export type Role = (typeof ROLES)[number];

export type TeamMember = {
  readonly agent: string;
  readonly role: Role;
  readonly phases: readonly Phase[];
  /** How strongly the issue selects this agent, from 0 to 100. */
  readonly routingScore: number;
};

export type TaskStatus = "pending" | "active" | "completed" | "failed" | "blocked" | "skipped";

/** The work of one node, from the team's view. */
type TeamTask = { readonly agent: string; readonly phase: Phase; readonly status: TaskStatus };

export type Team = {
  /** Format: TEAM-YYYYMMDD-hash4. */
  readonly id: string;
  readonly issue: number;
  readonly complexity: Complexity;
  readonly domains: readonly string[];
  readonly members: readonly TeamMember[];
  /** Tasks by name. All counts are derived from it, so that nothing is counted twice. */
  readonly tasks: Readonly<Record<string, TeamTask>>;
};

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

export const PHASE_SHAPE: Shape<Phase> = oneOf<Phase>({
  input: true,
  backlog: true,
  enrich: true,
  ready: true,
  implementing: true,
  e2e: true,
  docs: true,
  "ready-to-merge": true,
  done: true,
});

export const ROLE_SHAPE: Shape<Role> = oneOf<Role>({
  coordinator: true,
  supervisor: true,
  implementer: true,
  quality: true,
  context: true,
});

export const TEAM_TASK_SHAPE: Shape<TeamTask> = object<TeamTask>({
  agent: text,
  phase: PHASE_SHAPE,
  status: oneOf<TaskStatus>({
    pending: true,
    active: true,
    completed: true,
    failed: true,
    blocked: true,
    skipped: true,
  }),
});

export const TEAM_SHAPE: Shape<Team> = object<Team>({
  id: text,
  issue: count,
  complexity: object<Complexity>({
    score: count,
    level: oneOf<Complexity["level"]>({ LOW: true, MEDIUM: true, HIGH: true, CRITICAL: true }),
    factors: object<ComplexityFactors>({
      multiDomain: flag,
      fileCount: flag,
      securityInvolved: flag,
      breakingChange: flag,
      priorFailures: flag,
    }),
  }),
  domains: list(text),
  members: list(object<TeamMember>({ agent: text, role: ROLE_SHAPE, phases: list(PHASE_SHAPE), routingScore: finite })),
  tasks: dictionary(TEAM_TASK_SHAPE),
});

export type ComplexityLevel = "LOW" | "MEDIUM" | "HIGH" | "CRITICAL";

type ComplexityFactors = {
  readonly multiDomain: boolean;
  readonly fileCount: boolean;
  readonly securityInvolved: boolean;
  readonly breakingChange: boolean;
  readonly priorFailures: boolean;
};

type Complexity = {
  readonly score: number;
  readonly level: ComplexityLevel;
  readonly factors: ComplexityFactors;
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

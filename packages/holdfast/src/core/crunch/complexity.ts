export type ComplexityLevel = "LOW" | "MEDIUM" | "HIGH" | "CRITICAL";

export type ComplexityFactors = {
  readonly multiDomain: boolean;
  readonly fileCount: boolean;
  readonly securityInvolved: boolean;
  readonly breakingChange: boolean;
  readonly priorFailures: boolean;
};

export type Complexity = {
  readonly score: number;
  readonly level: ComplexityLevel;
  readonly factors: ComplexityFactors;
};

export interface ComplexitySigns {
  readonly domains: readonly string[];
  /** How many files the work is reckoned to touch. */
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

/** Does the team need somebody who does nothing but coordinate? */
export function needsOrchestrator(params: {
  readonly score: number;
  readonly domains: readonly string[];
  /** The issue carries the label `complex`. */
  readonly complex: boolean;
  readonly priorFailures: number;
}): boolean {
  return params.score >= 5 || new Set(params.domains).size >= 2 || params.complex || params.priorFailures >= 1;
}

import type { Answer, Verification } from "./iteration.ts";
import { DIMENSIONS } from "./options.ts";
import type { Dimension, RalphOptions } from "./options.ts";

/** From 0 to 1 each; null: nothing was measured that could say. */
export type Dimensions = Readonly<Record<Dimension, number | null>>;

/**
 * How good an iteration's work is, by facts alone.
 * validation: share of the criterion's checks that passed. completeness: tests that pass, of the most that ever ran, so that leaving tests out does
 * not look like progress. correctness: tests that pass, of those that ran. readability: how little compilers and linters complain (1 at none, a half at
 * ten). efficiency: what an iteration may take of what this one took.
 */
export function dimensionsOf(params: {
  readonly answer: Answer;
  readonly verification: Verification;
  readonly planned: number;
  readonly mostTests: number;
  readonly tokensPerIteration: number | null;
}): Dimensions {
  const { answer, verification, planned, mostTests, tokensPerIteration } = params;
  const { tests, errors, warnings } = verification.metrics;
  const ran = tests === null ? 0 : tests.passed + tests.failed;
  const judged = verification.verdict === "passed" || verification.verdict === "failed";
  const yes = verification.checks.filter((check) => check.kind === "exited" && check.code === 0).length;
  const complaints = errors === null && warnings === null ? null : (errors ?? 0) + (warnings ?? 0) / 4;
  return {
    validation: judged && planned > 0 ? Math.min(1, yes / planned) : null,
    completeness: tests === null || ran === 0 ? null : tests.passed / Math.max(mostTests, ran),
    correctness: tests === null || ran === 0 ? null : tests.passed / ran,
    readability: complaints === null ? null : 10 / (10 + complaints),
    efficiency: efficiency(answer.spent.tokens, tokensPerIteration),
  };
}

/** 0 to 100 by weight over the dimensions that are known, to a thousandth; null: none is. */
export function qualityOf(dimensions: Dimensions, weights: RalphOptions["qualityWeights"]): number | null {
  let [weight, sum] = [0, 0];
  for (const name of DIMENSIONS) {
    const value = dimensions[name];
    if (value === null) continue;
    weight += weights[name];
    sum += weights[name] * value;
  }
  return weight === 0 ? null : Math.round((sum / weight) * 100_000) / 1_000;
}

function efficiency(tokens: number | null, allowed: number | null): number | null {
  if (tokens === null || allowed === null) return null;
  return tokens <= allowed ? 1 : allowed / tokens;
}

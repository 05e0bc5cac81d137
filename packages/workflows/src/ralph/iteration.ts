// The records of a ralph loop: metrics, answers, verifications, iterations, reflections and findings, with their
// shapes. The types are aliases because TypeScript does not accept an interface as a JSON object.

import { type Shape, count, finite, list, nullable, object, oneOf, tagged, text } from "@holdfast/core/json";

export type TestCounts = {
  readonly passed: number;
  readonly failed: number;
  /** Skipped, pending, todo or ignored: neither passed nor failed. */
  readonly skipped: number;
};

/** Names of what fails, sorted and unique, each cut to 200 characters. `more` counts the names left out. */
export type Failing = { readonly names: readonly string[]; readonly more: number };

/** Numbers read from a verification's output. null: the output does not say, which is not zero. */
export type Metrics = {
  readonly tests: TestCounts | null;
  /** Errors of compilers and linters. */
  readonly errors: number | null;
  readonly warnings: number | null;
  readonly failing: Failing;
  /** Tools whose output was recognised, such as "vitest" or "tsc", sorted. */
  readonly readers: readonly string[];
};

export const noMetrics: Metrics = {
  tests: null,
  errors: null,
  warnings: null,
  failing: { names: [], more: 0 },
  readers: [],
};

export const FAILING_SHAPE: Shape<Failing> = object<Failing>({ names: list(text), more: count });

const TESTS_SHAPE: Shape<TestCounts | null> = nullable(
  object<TestCounts>({ passed: count, failed: count, skipped: count }),
);

const METRICS_SHAPE: Shape<Metrics> = object<Metrics>({
  tests: TESTS_SHAPE,
  errors: nullable(count),
  warnings: nullable(count),
  failing: FAILING_SHAPE,
  readers: list(text),
});

/** null: the agent did not report it, which is not zero. */
export type IterationCost = { readonly tokens: number | null; readonly microUsd: number | null };

/** The bounded result of the agent's call, recorded by `iterate`. */
export type Answer = {
  /** The position's iteration number, starting at 1. */
  readonly number: number;
  /** Index into planUnits(options). */
  readonly unit: number;
  readonly unitName: string;
  readonly outcome: "completed" | "failed";
  /** Why it failed, in the adapter's terms. */
  readonly cause: string | null;
  /** The answer without its learnings, cut in the middle. */
  readonly said: string;
  /** Learnings that the agent reported. */
  readonly learnings: readonly string[];
  readonly spent: IterationCost;
  readonly milliseconds: number;
  /** null: unknown. 0: nothing changed. */
  readonly filesChanged: number | null;
  /** Digest of all files after the call; equal for equal files. null: unknown. */
  readonly tree: string | null;
};

/**
 * The verdict of the checks:
 * - passed: every check exited with 0.
 * - failed: a check failed or timed out.
 * - unchecked: the unit has no check, so only the agent's own report counts.
 * - not_run: a check could not start or was interrupted, which says nothing about the files.
 */
export type IterationVerdict = "passed" | "failed" | "unchecked" | "not_run";

/** The result of one check command. */
export type CheckResult = {
  readonly command: string;
  readonly kind: "exited" | "timed_out" | "interrupted" | "not_started";
  readonly code: number | null;
  readonly milliseconds: number;
  readonly metrics: Metrics;
  /** The relevant part of the output; empty if the check passed. */
  readonly excerpt: string;
  /**
   * Digest of the failure without what varies between attempts (times, addresses, paths of temporary files). null: it
   * passed, or gave no verdict.
   */
  readonly signature: string | null;
};

/** Recorded by `verify`. Metrics and signature cover all checks together. */
export type Verification = {
  readonly number: number;
  readonly verdict: IterationVerdict;
  readonly checks: readonly CheckResult[];
  readonly metrics: Metrics;
  readonly signature: string | null;
};

/** The summary of an iteration. */
export type Iteration = {
  readonly number: number;
  readonly unit: number;
  readonly unitName: string;
  readonly outcome: Answer["outcome"];
  readonly verdict: IterationVerdict;
  /** From 0 to 100; null: nothing was measured. */
  readonly quality: number | null;
  readonly tests: Metrics["tests"];
  readonly errors: number | null;
  readonly warnings: number | null;
  readonly spent: IterationCost;
  /** Time of the agent and the checks together. */
  readonly milliseconds: number;
  readonly filesChanged: number | null;
  readonly signature: string | null;
  /** Digest of the names of what fails; null: no names are known. */
  readonly failingDigest: string | null;
  readonly tree: string | null;
};

/** A reflection on an iteration, composed of facts, for the loop's memory. */
export type Reflection = {
  readonly iteration: number;
  readonly unitName: string;
  readonly verdict: IterationVerdict;
  readonly quality: number | null;
  readonly text: string;
  readonly learnings: readonly string[];
  readonly signature: string | null;
  /** What failed then, to compare with what fails now. */
  readonly failing: readonly string[];
  /** Newest iteration whose failure had this signature. */
  readonly lastSeen: number;
};

/**
 * The best iteration of the current unit, because units cannot be compared. A passed iteration is better than any
 * other; then quality decides. Among equals the earliest wins.
 */
export type BestIteration = {
  readonly iteration: number;
  readonly unit: number;
  readonly verdict: IterationVerdict;
  readonly quality: number;
  /** Digest of its files. The checkpoint with this tree is the one to restore. */
  readonly tree: string | null;
  readonly failing: Failing;
};

const OUTCOME = oneOf<Answer["outcome"]>({ completed: true, failed: true });
const VERDICT = oneOf<IterationVerdict>({ passed: true, failed: true, unchecked: true, not_run: true });
const SPENT = object<IterationCost>({ tokens: nullable(count), microUsd: nullable(count) });

export const ANSWER_SHAPE: Shape<Answer> = object<Answer>({
  number: count,
  unit: count,
  unitName: text,
  outcome: OUTCOME,
  cause: nullable(text),
  said: text,
  learnings: list(text),
  spent: SPENT,
  milliseconds: count,
  filesChanged: nullable(count),
  tree: nullable(text),
});

export const VERIFICATION_SHAPE: Shape<Verification> = object<Verification>({
  number: count,
  verdict: VERDICT,
  checks: list(
    object<CheckResult>({
      command: text,
      kind: oneOf<CheckResult["kind"]>({ exited: true, timed_out: true, interrupted: true, not_started: true }),
      code: nullable(finite),
      milliseconds: count,
      metrics: METRICS_SHAPE,
      excerpt: text,
      signature: nullable(text),
    }),
  ),
  metrics: METRICS_SHAPE,
  signature: nullable(text),
});

export const ITERATION_SHAPE: Shape<Iteration> = object<Iteration>({
  number: count,
  unit: count,
  unitName: text,
  outcome: OUTCOME,
  verdict: VERDICT,
  quality: nullable(finite),
  tests: TESTS_SHAPE,
  errors: nullable(count),
  warnings: nullable(count),
  spent: SPENT,
  milliseconds: count,
  filesChanged: nullable(count),
  signature: nullable(text),
  failingDigest: nullable(text),
  tree: nullable(text),
});

export const REFLECTION_SHAPE: Shape<Reflection> = object<Reflection>({
  iteration: count,
  unitName: text,
  verdict: VERDICT,
  quality: nullable(finite),
  text,
  learnings: list(text),
  signature: nullable(text),
  failing: list(text),
  lastSeen: count,
});

export const BEST_SHAPE: Shape<BestIteration> = object<BestIteration>({
  iteration: count,
  unit: count,
  verdict: VERDICT,
  quality: finite,
  tree: nullable(text),
  failing: FAILING_SHAPE,
});

/**
 * A problem with the loop's progress that the user should know. The evidence is data; the sentence states it for
 * people.
 */
export type LoopFinding = StuckFinding | OscillationFinding | RegressionFinding | BurnFinding;

type Found<K extends string, E> = {
  readonly kind: K;
  /** The iteration after which it was found. */
  readonly iteration: number;
  readonly sentence: string;
  readonly evidence: E;
};

/** Names the iterations that are alike, oldest first. */
type StuckFinding = Found<
  "stuck",
  {
    readonly because: "same_failure" | "no_change";
    readonly iterations: readonly number[];
    /** What they have in common: the failure's signature or the files' tree; null if neither is known. */
    readonly common: string | null;
  }
>;

/** Lists the turns, oldest first. `states` holds the digests of the two alternating states. */
type OscillationFinding = Found<
  "oscillation",
  {
    readonly between: "files" | "failing_tests";
    readonly iterations: readonly number[];
    readonly states: readonly string[];
  }
>;

/** What fails now but did not in the best iteration, and both qualities. */
type RegressionFinding = Found<
  "regression",
  {
    readonly best: { readonly iteration: number; readonly quality: number };
    readonly quality: number;
    readonly lost: Failing;
  }
>;

/** Amounts are tokens, millionths of a dollar, or milliseconds. */
type BurnFinding = Found<
  "burn_rate",
  {
    readonly measure: "tokens" | "microUsd" | "milliseconds";
    /** Average over `iterations`. */
    readonly perIteration: number;
    readonly iterations: readonly number[];
    readonly left: number;
    /** How many more such iterations the budget allows. */
    readonly affordable: number;
    /** Points of quality gained over `iterations`; null: not measured. */
    readonly gained: number | null;
    /** Cost of one point of quality; null: none was gained. */
    readonly perPoint: number | null;
    /** Iterations needed to reach 100 points at this pace; null: there is no gain, so no number is enough. */
    readonly needed: number | null;
  }
>;

type Of<K extends LoopFinding["kind"]> = Extract<LoopFinding, { readonly kind: K }>;

export const FINDING_SHAPE: Shape<LoopFinding> = tagged<LoopFinding, "kind">("kind", {
  stuck: object<Of<"stuck">>({
    kind: oneOf<"stuck">({ stuck: true }),
    iteration: count,
    sentence: text,
    evidence: object<StuckFinding["evidence"]>({
      because: oneOf<"same_failure" | "no_change">({ same_failure: true, no_change: true }),
      iterations: list(count),
      common: nullable(text),
    }),
  }),
  oscillation: object<Of<"oscillation">>({
    kind: oneOf<"oscillation">({ oscillation: true }),
    iteration: count,
    sentence: text,
    evidence: object<OscillationFinding["evidence"]>({
      between: oneOf<"files" | "failing_tests">({ files: true, failing_tests: true }),
      iterations: list(count),
      states: list(text),
    }),
  }),
  regression: object<Of<"regression">>({
    kind: oneOf<"regression">({ regression: true }),
    iteration: count,
    sentence: text,
    evidence: object<RegressionFinding["evidence"]>({
      best: object<RegressionFinding["evidence"]["best"]>({ iteration: count, quality: finite }),
      quality: finite,
      lost: FAILING_SHAPE,
    }),
  }),
  burn_rate: object<Of<"burn_rate">>({
    kind: oneOf<"burn_rate">({ burn_rate: true }),
    iteration: count,
    sentence: text,
    evidence: object<BurnFinding["evidence"]>({
      measure: oneOf<BurnFinding["evidence"]["measure"]>({ tokens: true, microUsd: true, milliseconds: true }),
      perIteration: finite,
      iterations: list(count),
      left: finite,
      affordable: count,
      gained: nullable(finite),
      perPoint: nullable(finite),
      needed: nullable(count),
    }),
  }),
});

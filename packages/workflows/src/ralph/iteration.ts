// The records of a ralph loop: metrics, answers, verifications, iterations, reflections and findings, with their
// shapes.

import {
  type Shape,
  type TypeOf,
  anyOf,
  count,
  finite,
  list,
  nullable,
  object,
  optional,
  text,
  variants,
} from "@holdfast/core/json";

export const noMetrics: Metrics = {
  tests: null,
  errors: null,
  warnings: null,
  failing: { names: [], more: 0 },
  readers: [],
};

export const FAILING_SHAPE = object({ names: list(text), more: count });
/** Names of what fails, sorted and unique, each cut to 200 characters. `more` counts the names left out. */
export type Failing = TypeOf<typeof FAILING_SHAPE>;

const TESTS_SHAPE = object({
  passed: count,
  failed: count,
  /** Skipped, pending, todo or ignored: neither passed nor failed. */
  skipped: count,
});
export type TestCounts = TypeOf<typeof TESTS_SHAPE>;

const METRICS_SHAPE = object({
  tests: nullable(TESTS_SHAPE),
  /** Errors of compilers and linters. */
  errors: nullable(count),
  warnings: nullable(count),
  failing: FAILING_SHAPE,
  /** Tools whose output was recognised, such as "vitest" or "tsc", sorted. */
  readers: list(text),
});
/** Numbers read from a verification's output. null: the output does not say, which is not zero. */
export type Metrics = TypeOf<typeof METRICS_SHAPE>;

const VERDICT = anyOf(["passed", "failed", "unchecked", "not_run"]);
/**
 * The verdict of the checks:
 * - passed: every check exited with 0.
 * - failed: a check failed or timed out.
 * - unchecked: the unit has no check, so only the agent's own report counts.
 * - not_run: a check could not start or was interrupted, which says nothing about the files.
 */
export type IterationVerdict = TypeOf<typeof VERDICT>;

const SPENT = object({ tokens: nullable(count), microUsd: nullable(count) });
/** null: the agent did not report it, which is not zero. */
export type IterationCost = TypeOf<typeof SPENT>;

export const MAX_ARTIFACTS = 200;

const ARTIFACT_SHAPE = object({
  path: text,
  /** The git object of the content; null: deleted. */
  digest: nullable(text),
  status: anyOf(["created", "modified", "deleted"]),
});
export type Artifact = TypeOf<typeof ARTIFACT_SHAPE>;

/** What an answer and its iteration both say. */
const CALL = {
  /** The position's iteration number, starting at 1. */
  number: count,
  /** Index into planUnits(options). */
  unit: count,
  unitName: text,
  outcome: anyOf(["completed", "failed"]),
  spent: SPENT,
  milliseconds: count,
  /** null: unknown. 0: nothing changed. */
  filesChanged: nullable(count),
  /** Digest of all files after the call; equal for equal files. null: unknown. */
  tree: nullable(text),
} as const;

export const ANSWER_SHAPE = object({
  ...CALL,
  /** Why it failed, in the adapter's terms. */
  cause: nullable(text),
  /** What the adapter said about the failure; empty if the call completed, and absent in older answers. */
  failure: optional(text),
  /** The answer without its learnings, cut in the middle. */
  said: text,
  /** Learnings that the agent reported. */
  learnings: list(text),
  /** Files that differ from those on which the loop began, at most MAX_ARTIFACTS; absent in older answers. */
  artifacts: optional(list(ARTIFACT_SHAPE)),
  /** Names of the tools that the agent reported to have used; absent in older answers. */
  tools: optional(list(text)),
});
/** The bounded result of the agent's call, recorded by `iterate`. */
export type Answer = TypeOf<typeof ANSWER_SHAPE>;

const CHECK_SHAPE = object({
  command: text,
  kind: anyOf(["exited", "timed_out", "interrupted", "not_started"]),
  code: nullable(finite),
  milliseconds: count,
  metrics: METRICS_SHAPE,
  /** The relevant part of the output; empty if the check passed. */
  excerpt: text,
  /**
   * Digest of the failure without what varies between attempts (times, addresses, paths of temporary files). null: it
   * passed, gave no verdict, or failed without any output.
   */
  signature: nullable(text),
});
/** The result of one check command. */
export type CheckResult = TypeOf<typeof CHECK_SHAPE>;

export const VERIFICATION_SHAPE = object({
  number: count,
  verdict: VERDICT,
  checks: list(CHECK_SHAPE),
  metrics: METRICS_SHAPE,
  signature: nullable(text),
});
/** Recorded by `verify`. Metrics and signature cover all checks together. */
export type Verification = TypeOf<typeof VERIFICATION_SHAPE>;

/** Its `milliseconds` are those of the agent and the checks together. */
export const ITERATION_SHAPE = object({
  ...CALL,
  verdict: VERDICT,
  /** From 0 to 100; null: nothing was measured. */
  quality: nullable(finite),
  tests: nullable(TESTS_SHAPE),
  errors: nullable(count),
  warnings: nullable(count),
  signature: nullable(text),
  /** Digest of the names of what fails; null: no names are known. */
  failingDigest: nullable(text),
});
/** The summary of an iteration. */
export type Iteration = TypeOf<typeof ITERATION_SHAPE>;

export const REFLECTION_SHAPE = object({
  iteration: count,
  unitName: text,
  verdict: VERDICT,
  quality: nullable(finite),
  text,
  learnings: list(text),
  signature: nullable(text),
  /** What failed then, to compare with what fails now. */
  failing: list(text),
  /** Newest iteration whose failure had this signature. */
  lastSeen: count,
});
/** A reflection on an iteration, composed of facts, for the loop's memory. */
export type Reflection = TypeOf<typeof REFLECTION_SHAPE>;

export const BEST_SHAPE = object({
  iteration: count,
  unit: count,
  verdict: VERDICT,
  quality: finite,
  /** Digest of its files. The checkpoint with this tree is the one to restore. */
  tree: nullable(text),
  failing: FAILING_SHAPE,
});
/**
 * The best iteration of the current unit, because units cannot be compared. A passed iteration is better than any
 * other; then quality decides. Among equals the earliest wins.
 */
export type BestIteration = TypeOf<typeof BEST_SHAPE>;

/** `iteration`: the one after which it was found. */
function finding<T extends object>(evidence: Shape<T>) {
  return object({ iteration: count, sentence: text, evidence });
}

export const FINDING_SHAPE = variants("kind", {
  /** Names the iterations that are alike, oldest first. */
  stuck: finding(
    object({
      /** Loops of earlier versions also have the other two. */
      because: anyOf(["same_failure_same_files", "same_failure", "no_change"]),
      iterations: list(count),
      /** The common signature of the failure (formerly also the tree of the files); null if there is none. */
      common: nullable(text),
    }),
  ),
  /** Lists the turns, oldest first. `states` holds the digests of the two alternating states. */
  oscillation: finding(
    object({ between: anyOf(["files", "failing_tests"]), iterations: list(count), states: list(text) }),
  ),
  /** What fails now but did not in the best iteration, and both qualities. */
  regression: finding(
    object({ best: object({ iteration: count, quality: finite }), quality: finite, lost: FAILING_SHAPE }),
  ),
  /** Amounts are tokens, millionths of a dollar, or milliseconds. */
  burn_rate: finding(
    object({
      measure: anyOf(["tokens", "microUsd", "milliseconds"]),
      /** Average over `iterations`. */
      perIteration: finite,
      iterations: list(count),
      left: finite,
      /** How many more such iterations the budget allows. */
      affordable: count,
      /** Points of quality gained over `iterations`; null: not measured. */
      gained: nullable(finite),
      /** Cost of one point of quality; null: none was gained. */
      perPoint: nullable(finite),
      /** Iterations needed to reach 100 points at this pace; null: there is no gain, so no number is enough. */
      needed: nullable(count),
    }),
  ),
});
/**
 * A problem with the loop's progress that the user should know. The evidence is data; the sentence states it for
 * people.
 */
export type LoopFinding = TypeOf<typeof FINDING_SHAPE>;

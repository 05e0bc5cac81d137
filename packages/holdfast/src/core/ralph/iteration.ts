import { count, finite, list, nullable, object, oneOf, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { FAILING_SHAPE, METRICS_SHAPE, TESTS_SHAPE } from "./metrics.ts";
import type { Failing, Metrics } from "./metrics.ts";

/** null: the agent does not say, which is not zero. */
export type Spent = { readonly tokens: number | null; readonly microUsd: number | null };

/** What came of the agent's turn, all of it bounded. Recorded in `iterate`. */
export type Answer = {
  /** Of the iteration, from 1: the position's own. */
  readonly number: number;
  /** Index into planUnits(options), and its name. */
  readonly unit: number;
  readonly unitName: string;
  readonly outcome: "completed" | "failed";
  /** Why it failed, as the agent's adapter names it. */
  readonly cause: string | null;
  /** What it said besides its learnings, cut in the middle. */
  readonly said: string;
  /** What it said it had learnt. */
  readonly learnings: readonly string[];
  readonly spent: Spent;
  readonly milliseconds: number;
  /** null: not known. 0: nothing changed. */
  readonly filesChanged: number | null;
  /** Digest of all files after the turn; equal for equal files. null: not known. */
  readonly tree: string | null;
};

/**
 * passed: every check exited with 0. failed: one did not, or took too long. unchecked: the unit has no check, so the agent's word is all
 * there is. not_run: a check could not be started or was cut off, which says nothing about the files.
 */
export type IterationVerdict = "passed" | "failed" | "unchecked" | "not_run";

/** One command of the criterion, as it ended. */
export type CheckResult = {
  readonly command: string;
  readonly kind: "exited" | "timed_out" | "interrupted" | "not_started";
  readonly code: number | null;
  readonly milliseconds: number;
  readonly metrics: Metrics;
  /** What of the output a reader needs to see; empty when it passed. */
  readonly excerpt: string;
  /** Digest of the failure without what differs from one try to the next (times, addresses, paths of temporary files); null: it passed. */
  readonly signature: string | null;
};

/** Recorded in `verify`. Metrics, signature and failing names are those of all checks together. */
export type Verification = {
  readonly number: number;
  readonly verdict: IterationVerdict;
  readonly checks: readonly CheckResult[];
  readonly metrics: Metrics;
  readonly signature: string | null;
};

/** An iteration in short: what is kept of every one. */
export type Iteration = {
  readonly number: number;
  readonly unit: number;
  readonly unitName: string;
  readonly outcome: Answer["outcome"];
  readonly verdict: IterationVerdict;
  /** 0 to 100; null: nothing was measured. */
  readonly quality: number | null;
  readonly tests: Metrics["tests"];
  readonly errors: number | null;
  readonly warnings: number | null;
  readonly spent: Spent;
  /** Of the agent and of the checks. */
  readonly milliseconds: number;
  readonly filesChanged: number | null;
  readonly signature: string | null;
  /** Digest of the names of what fails; null: no names are known. */
  readonly failingDigest: string | null;
  readonly tree: string | null;
};

/** One thing to remember: a reflection on an iteration, composed of facts. */
export type Reflection = {
  readonly iteration: number;
  readonly unitName: string;
  readonly verdict: IterationVerdict;
  readonly quality: number | null;
  readonly text: string;
  readonly learnings: readonly string[];
  readonly signature: string | null;
  /** What failed then, for its relevance to what fails now. */
  readonly failing: readonly string[];
  /** Newest iteration whose failure had this signature. */
  readonly lastSeen: number;
};

/**
 * The best iteration of the unit at hand (units are not comparable). A passed one is better than any other; then the quality decides; of
 * equals the earliest stays.
 */
export type BestIteration = {
  readonly iteration: number;
  readonly unit: number;
  readonly verdict: IterationVerdict;
  readonly quality: number;
  /** Its files, by the tree's digest: the checkpoint with this tree is the one to go back to. */
  readonly tree: string | null;
  readonly failing: Failing;
};

const OUTCOME = oneOf<Answer["outcome"]>({ completed: true, failed: true });
const VERDICT = oneOf<IterationVerdict>({ passed: true, failed: true, unchecked: true, not_run: true });
const SPENT = object<Spent>({ tokens: nullable(count), microUsd: nullable(count) });

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

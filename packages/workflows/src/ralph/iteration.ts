import { type Shape, count, finite, list, nullable, object, oneOf, tagged, text } from "@holdfast/core/json";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type TestCounts = {
  readonly passed: number;
  readonly failed: number;
  /** Skipped, pending, todo, ignored: neither passed nor failed. */
  readonly skipped: number;
};

/** Names of what fails, sorted, without repeats, each cut to 200 characters; `more` counts those that were left out. */
export type Failing = { readonly names: readonly string[]; readonly more: number };

/** What a verification's output says in numbers. null: it does not say, which is not zero. */
export type Metrics = {
  readonly tests: TestCounts | null;
  /** Of compilers and linters. */
  readonly errors: number | null;
  readonly warnings: number | null;
  readonly failing: Failing;
  /** Which tools' output was recognised ("vitest", "tsc"), sorted. */
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

/** null: the agent does not say, which is not zero. */
export type IterationCost = { readonly tokens: number | null; readonly microUsd: number | null };

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
  readonly spent: IterationCost;
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
  readonly spent: IterationCost;
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

/** Something about the course of the loop that a person should know. The evidence is data; the sentence says the same to people. */
export type LoopFinding = StuckFinding | OscillationFinding | RegressionFinding | BurnFinding;

type Found<K extends string, E> = {
  readonly kind: K;
  /** The one after which it was found. */
  readonly iteration: number;
  readonly sentence: string;
  readonly evidence: E;
};

/** The iterations that are alike are named, oldest first. */
type StuckFinding = Found<
  "stuck",
  {
    readonly because: "same_failure" | "no_change";
    readonly iterations: readonly number[];
    /** What they have in common: the failure's signature, or the files' tree; null where neither is known. */
    readonly common: string | null;
  }
>;

/** The turns, oldest first; `states` are the two between which it goes, as digests. */
type OscillationFinding = Found<
  "oscillation",
  {
    readonly between: "files" | "failing_tests";
    readonly iterations: readonly number[];
    readonly states: readonly string[];
  }
>;

/** What fails now and did not in the best iteration, and how far the quality lies below it. */
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
    /** Of the iterations looked at. */
    readonly perIteration: number;
    readonly iterations: readonly number[];
    readonly left: number;
    /** How many more such iterations the budget allows. */
    readonly affordable: number;
    /** Points of quality gained over the iterations looked at; null: not measured. */
    readonly gained: number | null;
    /** What a point of quality cost; null: none was gained. */
    readonly perPoint: number | null;
    /** At this rate, how many more it needs to 100 points; null: it gains nothing, so no number is enough. */
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

/** At most `most` characters: the beginning and the end of a longer text, with a word on what lies between. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const gap = " … ";
  const head = Math.floor((most - gap.length) * 0.4);
  const tail = most - gap.length - head;
  return `${text.slice(0, head).toWellFormed()}${gap}${text.slice(text.length - tail).toWellFormed()}`;
}

/** On one line, at most `most` characters from the beginning. */
export function oneLine(text: string, most: number): string {
  // Cut first: a hostile text is not walked to its end for a line of it.
  const line = text
    .slice(0, most * 4)
    .split(/\s+/)
    .join(" ")
    .trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`;
}

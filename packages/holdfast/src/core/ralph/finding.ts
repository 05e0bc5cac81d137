import { count, finite, list, nullable, object, oneOf, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { FAILING_SHAPE } from "./metrics.ts";
import type { Failing } from "./metrics.ts";

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

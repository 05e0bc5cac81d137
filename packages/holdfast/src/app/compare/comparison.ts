import type { Best } from "../../core/compare/find-best.ts";
import type { CodeChange, ComparedRun } from "../../core/compare/compared-run.ts";
import type { Divergence } from "../../core/compare/diverge.ts";

/** Runs laid side by side. In the order in which they were named; what is told of each and of each pair does not depend on it. */
export interface Comparison {
  readonly runs: readonly ComparedSide[];
  /** Every two of them, once. */
  readonly pairs: readonly ComparedPair[];
  readonly best: readonly Best[];
  /** Patches or counts as git prints them, where asked for: of the two, or of each against its base when there are more. */
  readonly diffs: readonly DiffText[];
}

export interface ComparedSide extends ComparedRun {
  readonly base: CodeBase | null;
  /** Against the base. */
  readonly code: CodeChange | null;
}

/**
 * What a run's code is measured against: the checkpoint that all of them come from, else the commit that all began from, else the files
 * that all began with, else each its own beginning.
 */
export interface CodeBase {
  readonly kind: "fork_point" | "base_commit" | "same_beginning" | "own_beginning";
  /** `RUN@n`, or a commit. */
  readonly name: string;
  /** Tree or commit. */
  readonly tree: string;
}

export interface ComparedPair {
  readonly a: string;
  readonly b: string;
  /** From the first to the second. */
  readonly code: CodeChange | null;
  readonly diverged: Divergence;
}

export interface DiffText {
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

import type { Work } from "../run/run.ts";
import { commonPoint } from "./lineage.ts";
import type { LineagePoint } from "./lineage.ts";
import type { HistoryStep } from "./read-history.ts";

/** One side: where it comes from, and all that was done on the way, by the runs that it was forked from too. */
export interface DivergingSide {
  readonly lineage: readonly LineagePoint[];
  readonly steps: readonly HistoryStep[];
  readonly began: Began;
}

/** What a run was begun with, by the run that it all comes from. */
export interface Began {
  readonly workflow: string;
  readonly work: Work;
  /** Commit and tree, as far as each is known; none: it works on no files. */
  readonly files: readonly string[];
}

export interface Divergence {
  /** The newest checkpoint that both come from; null: they are strangers. */
  readonly common: LineagePoint | null;
  /**
   * "checkpoint": the common one. "alike": strangers that were begun with the same workflow from the same files, so that where they part means something.
   * "none": nothing; that steps of theirs came out the same would be chance.
   */
  readonly beginning: "checkpoint" | "alike" | "none";
  /** The first thing that is not the same; null: one did exactly what the other did. */
  readonly first: FirstDifference | null;
}

export interface FirstDifference {
  /** Steps before it that both did, with the same results; 0 where they have no common beginning. */
  readonly shared: number;
  /** "step": they did different things; "result": the same thing with different results; "length": one of them did nothing more. */
  readonly kind: "step" | "result" | "length";
  /** null: it did nothing more. */
  readonly a: HistoryStep | null;
  readonly b: HistoryStep | null;
}

/** Swapping the sides swaps the answer's sides, and nothing else. */
export function findDivergence(a: DivergingSide, b: DivergingSide): Divergence {
  const common = commonPoint([a.lineage, b.lineage]);
  const beginning = common !== null ? "checkpoint" : isAlike(a.began, b.began) ? "alike" : "none";
  const shared = beginning === "none" ? 0 : sharedSteps(a.steps, b.steps);
  return { common, beginning, first: differenceAt(shared, a.steps, b.steps) };
}

/** Two issues are two orders; words for the same order may differ. */
function isAlike(a: Began, b: Began): boolean {
  const otherIssue = a.work.kind === "issue" && b.work.kind === "issue" && a.work.number !== b.work.number;
  const sameFiles = a.files.length === 0 ? b.files.length === 0 : a.files.some((one) => b.files.includes(one));
  return a.workflow === b.workflow && sameFiles && !otherIssue;
}

function sharedSteps(a: readonly HistoryStep[], b: readonly HistoryStep[]): number {
  let shared = 0;
  while (shared < a.length && shared < b.length && isSame(a[shared], b[shared])) shared += 1;
  return shared;
}

function differenceAt(shared: number, a: readonly HistoryStep[], b: readonly HistoryStep[]): FirstDifference | null {
  const [left, right] = [a[shared] ?? null, b[shared] ?? null];
  if (left === null && right === null) return null;
  const kind = left === null || right === null ? "length" : left.name === right.name ? "result" : "step";
  return { shared, kind, a: left, b: right };
}

function isSame(a: HistoryStep | undefined, b: HistoryStep | undefined): boolean {
  return a?.name === b?.name && a?.digest === b?.digest;
}

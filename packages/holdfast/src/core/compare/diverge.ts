import { commonPoint } from "./lineage.ts";
import type { LineagePoint } from "./lineage.ts";
import type { HistoryStep } from "./read-history.ts";

/** One side: where it comes from, and all that was done on the way, by the runs that it was forked from too. */
export interface DivergingSide {
  readonly lineage: readonly LineagePoint[];
  readonly steps: readonly HistoryStep[];
}

export interface Divergence {
  /** The newest checkpoint that both come from; null: they are strangers. */
  readonly common: LineagePoint | null;
  /** The first thing that is not the same; null: one did exactly what the other did. */
  readonly first: FirstDifference | null;
}

export interface FirstDifference {
  /** Steps before it that both did, with the same results. */
  readonly shared: number;
  /** "step": they did different things; "result": the same thing with different results; "length": one of them did nothing more. */
  readonly kind: "step" | "result" | "length";
  /** null: it did nothing more. */
  readonly a: HistoryStep | null;
  readonly b: HistoryStep | null;
}

/** Swapping the sides swaps the answer's sides, and nothing else. */
export function findDivergence(a: DivergingSide, b: DivergingSide): Divergence {
  return { common: commonPoint([a.lineage, b.lineage]), first: firstDifference(a.steps, b.steps) };
}

function firstDifference(a: readonly HistoryStep[], b: readonly HistoryStep[]): FirstDifference | null {
  let shared = 0;
  while (shared < a.length && shared < b.length && isSame(a[shared], b[shared])) shared += 1;
  const [left, right] = [a[shared] ?? null, b[shared] ?? null];
  if (left === null && right === null) return null;
  const kind = left === null || right === null ? "length" : left.name === right.name ? "result" : "step";
  return { shared, kind, a: left, b: right };
}

function isSame(a: HistoryStep | undefined, b: HistoryStep | undefined): boolean {
  return a?.name === b?.name && a?.digest === b?.digest;
}

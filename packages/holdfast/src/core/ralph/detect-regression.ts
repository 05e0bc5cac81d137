import { oneLine } from "./clip.ts";
import type { LoopFinding } from "./finding.ts";
import type { BestIteration, Iteration } from "./iteration.ts";
import type { Failing, TestCounts } from "./metrics.ts";

/** The newest iteration is worse than the best one: by so many points of quality, or because what did not fail there fails now. */
export function detectRegression(params: {
  readonly iterations: readonly Iteration[];
  readonly best: BestIteration | null;
  readonly failing: Failing;
  readonly points: number;
}): LoopFinding | null {
  const { iterations, best, points } = params;
  const newest = iterations.at(-1);
  if (newest === undefined || newest.quality === null || best === null || best.unit !== newest.unit) return null;
  const was = iterations.find((one) => one.number === best.iteration)?.tests ?? null;
  const lost = lostSince({ best, failing: params.failing, was, is: newest.tests });
  const below = best.quality - newest.quality;
  if (lost.names.length === 0 && (below <= 0 || below < points)) return null;
  const { iteration, quality } = best;
  const parts = [
    below > 0 ? `quality ${round(newest.quality)} after ${round(quality)} in iteration ${iteration}` : null,
    lost.names.length > 0 ? `what did not fail in iteration ${iteration} fails now: ${listed(lost)}` : null,
  ].filter((part) => part !== null);
  return {
    kind: "regression",
    iteration: newest.number,
    sentence: `Worse than before: ${parts.join("; ")}`,
    evidence: { best: { iteration, quality }, quality: newest.quality, lost },
  };
}

const MOST_LOST = 10;

/** Names are compared only where both lists are whole, and as many as there are new tests may be new ones, which lose nothing. */
function lostSince(params: {
  readonly best: BestIteration;
  readonly failing: Failing;
  readonly was: TestCounts | null;
  readonly is: TestCounts | null;
}): Failing {
  const { best, failing, was, is } = params;
  const none = { names: [], more: 0 };
  if (best.failing.more > 0 || was === null || is === null) return none;
  const known = new Set(best.failing.names);
  const names = failing.names.filter((name) => !known.has(name));
  const added = Math.max(0, total(is) - total(was));
  if (names.length + failing.more <= added) return none;
  return { names: names.slice(0, MOST_LOST), more: failing.more + Math.max(0, names.length - MOST_LOST) };
}

function total({ passed, failed, skipped }: TestCounts): number {
  return passed + failed + skipped;
}

function listed({ names, more }: Failing): string {
  const shown = names.slice(0, 3).map((name) => oneLine(name, 80));
  const left = names.length - shown.length + more;
  return left > 0 ? `${shown.join(", ")} and ${left} more` : shown.join(", ");
}

function round(quality: number): number {
  return Math.round(quality * 10) / 10;
}

import type { Position } from "./position.ts";

type Best = Position["best"];

/** The best so far. Of equals the earliest stays: a later one with the same score is no progress worth moving for. */
export function betterOf(best: Best, next: { readonly sequence: number; readonly score: number | null }): Best {
  if (next.score === null || !Number.isFinite(next.score)) return best;
  const better = best === null || next.score > best.score;
  return better ? { sequence: next.sequence, score: next.score } : best;
}

import type { BestIteration } from "./iteration.ts";

/** The better of the two; see BestIteration. Without a quality there is nothing to compare, and another unit's best is no rival. */
export function bestOf(
  best: BestIteration | null,
  next: Omit<BestIteration, "quality"> & { readonly quality: number | null },
): BestIteration | null {
  const kept = best?.unit === next.unit ? best : null;
  const { quality } = next;
  if (quality === null) return kept;
  const candidate = { ...next, quality };
  if (kept === null) return candidate;
  const rank = Number(candidate.verdict === "passed") - Number(kept.verdict === "passed");
  return rank > 0 || (rank === 0 && candidate.quality > kept.quality) ? candidate : kept;
}

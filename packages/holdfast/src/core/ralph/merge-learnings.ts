import { MAX_LEARNINGS } from "./state.ts";
import type { Learning } from "./state.ts";

/** What was said before and is said again counts as new, so that what keeps being true is not what is forgotten first. */
export function mergeLearnings(
  known: readonly Learning[],
  next: { readonly iteration: number; readonly texts: readonly string[] },
): readonly Learning[] {
  const merged = new Map(known.map((one) => [keyOf(one.text), one]));
  for (const text of next.texts) {
    merged.delete(keyOf(text));
    merged.set(keyOf(text), { iteration: next.iteration, text });
  }
  return [...merged.values()].slice(-MAX_LEARNINGS);
}

function keyOf(text: string): string {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .join(" ")
    .trim();
}

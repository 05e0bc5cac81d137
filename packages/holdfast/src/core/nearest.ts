/**
 * For "did you mean …?": the candidates that a slip of the finger turns into `text`, or that begin with it,
 * nearest first and at most `limit`. Empty when nothing is near: a far-fetched guess is worse than none.
 */
export function nearest(text: string, candidates: Iterable<string>, limit = 3): readonly string[] {
  const typed = text.slice(0, MAX_LENGTH).toLowerCase();
  if (typed === "") return [];
  const tolerance = Math.max(1, Math.floor(typed.length / 3));
  const ranked: { readonly candidate: string; readonly rank: number }[] = [];
  for (const candidate of new Set(candidates)) {
    const name = candidate.slice(0, MAX_LENGTH).toLowerCase();
    const distance = name.startsWith(typed) ? 0.5 : editDistance(typed, name);
    if (distance <= tolerance) ranked.push({ candidate, rank: name === typed ? 0 : distance });
  }
  ranked.sort((a, b) => a.rank - b.rank || (a.candidate < b.candidate ? -1 : 1));
  return ranked.slice(0, limit).map((entry) => entry.candidate);
}

/** Names are short; the bound keeps a pasted text from costing its square. */
const MAX_LENGTH = 128;

/** Insertions, deletions, substitutions and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(current, column - 1) + 1, at(last, column) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

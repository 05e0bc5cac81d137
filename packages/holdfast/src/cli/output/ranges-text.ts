/** "1-4, 7, 9-12". */
export function rangesText(sequences: readonly number[]): string {
  const parts: string[] = [];
  const sorted = sequences.toSorted((a, b) => a - b);
  for (let at = 0; at < sorted.length; at += 1) {
    const from = sorted[at] ?? 0;
    while (sorted[at + 1] === (sorted[at] ?? 0) + 1) at += 1;
    const to = sorted[at] ?? from;
    parts.push(from === to ? String(from) : `${from}-${to}`);
  }
  return parts.join(", ");
}

/** A checkpoint of a run that the compared one goes through: its own, then that which it was forked from, and so on. */
export interface LineagePoint {
  readonly run: string;
  readonly sequence: number;
}

/**
 * The newest checkpoint that all of them come from: of the nearest run that is in every lineage, the smallest sequence. null: they are strangers.
 * The order of the lineages does not matter.
 */
export function commonPoint(lineages: readonly (readonly LineagePoint[])[]): LineagePoint | null {
  const [first, ...others] = lineages;
  for (const { run, sequence } of first ?? []) {
    const sequences = others.map((lineage) => lineage.find((point) => point.run === run)?.sequence);
    const all = sequences.filter((one) => one !== undefined);
    if (all.length === others.length) return { run, sequence: Math.min(sequence, ...all) };
  }
  return null;
}

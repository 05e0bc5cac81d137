import { phaseOfLabels } from "./labels.ts";
import type { Phase } from "./phase.ts";

/** What somebody made of the state label. `follows`: where a resumed run goes on; null: only a person can tell. */
export type MovedLabel = { readonly says: string; readonly follows: Phase | null };

/**
 * Has somebody moved the state label since the run itself set it last? null: nobody has, or it says already what the run is about to make it say. What
 * a person was asked about when the run was last taken up (`agreed`) is not asked about again.
 */
export function movedLabel(params: {
  readonly now: readonly string[];
  /** As the run itself left them, and as a forge that is slow to tell may still show them; none: it has set none yet. */
  readonly own: readonly (readonly string[])[];
  readonly entering: Phase;
  readonly agreed: readonly string[] | null;
}): MovedLabel | null {
  const { now, own, agreed, entering } = params;
  if (own.length === 0) return null;
  const said = phasesOf(now);
  const known = [...own, ...(agreed === null ? [] : [agreed])].map(phasesOf);
  if (known.includes(said) || said === entering) return null;
  const labelled = phaseOfLabels(now);
  if (labelled.kind === "several") return { says: labelled.labels.join(" and "), follows: null };
  if (labelled.label === null) return { says: "no state label", follows: null };
  return { says: labelled.label, follows: labelled.phase === "backlog" ? null : labelled.phase };
}

function phasesOf(labels: readonly string[]): string {
  const labelled = phaseOfLabels(labels);
  return labelled.kind === "several" ? labelled.phases.join() : labelled.phase;
}

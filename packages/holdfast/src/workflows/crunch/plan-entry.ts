import type { CrunchIssue } from "../../core/crunch/crunch-state.ts";
import { phaseOfLabels } from "../../core/crunch/labels.ts";
import { isAtOrPast } from "../../core/crunch/phase.ts";
import type { Phase } from "../../core/crunch/phase.ts";

export type EntryPlan = SettledEntry | { readonly kind: "ask"; readonly phases: readonly Phase[] };

export type SettledEntry =
  | { readonly kind: "enrich" }
  /** Somebody has seen to the enriching already, and said so by the label. */
  | { readonly kind: "enriched"; readonly phase: Phase }
  | { readonly kind: "over"; readonly reason: string };

/**
 * Where a run begins, by the issue's labels. A new run has none of the work that the later labels tell of, so it begins to implement at the
 * latest, whatever they say.
 */
export function planEntry(issue: Pick<CrunchIssue, "number" | "labels" | "state">): EntryPlan {
  if (issue.state === "closed") return { kind: "over", reason: `Issue ${issue.number} is closed` };
  const labelled = phaseOfLabels(issue.labels);
  if (labelled.kind === "several") return { kind: "ask", phases: labelled.phases };
  return entryAt(issue.number, labelled.phase);
}

export function entryAt(issue: number, phase: Phase): SettledEntry {
  if (phase === "done") return { kind: "over", reason: `Issue ${issue} is done, as its label says` };
  return isAtOrPast(phase, "ready") ? { kind: "enriched", phase } : { kind: "enrich" };
}

/** Why the run failed, as far as its journal tells. */
export type Cause = {
  readonly kind: CauseKind;
  /** In plain words. */
  readonly why: string;
  /** The newest checkpoint that is surely without it; null: no checkpoint holds it, or none is known to be without it. */
  readonly after: number | null;
  /** Files that are known to be bad, and what is known of them. */
  readonly bad: ReadonlyMap<string, string>;
};

export const CAUSE_KINDS = [
  "none", // nothing failed
  "outside", // provider, network, budget, disk
  "flaky", // the same files passed and failed
  "regression", // a check that passed fails, or a score fell
  "oscillation", // two states in turn, none of them good
  "deletion", // a step removed many files, and the run failed after it
  "unknown",
] as const;
export type CauseKind = (typeof CAUSE_KINDS)[number];

/** Is there a state of the files to go back from? */
export function isInFiles(kind: CauseKind): boolean {
  switch (kind) {
    case "regression":
    case "oscillation":
    case "deletion":
      return true;
    case "none":
    case "outside":
    case "flaky":
    case "unknown":
      return false;
  }
}

import type { CheckpointId, CheckpointSummary } from "../checkpoint/checkpoint.ts";
import type { Finding, Verdict } from "./finding.ts";

/** What is chosen by reading the failure (rollback/) is a chosen one here. */
export type Strategy = { readonly kind: "last" } | { readonly kind: "chosen"; readonly sequence: number };

/** What is known about a candidate before it is chosen. */
export interface Candidate {
  readonly checkpoint: CheckpointSummary;
  readonly intact: boolean;
  /** false when an effect after it cannot be looked up again. */
  readonly effectsReconcilable: boolean;
  /** What is wrong with it; null when it is intact. */
  readonly problem: string | null;
}

export interface PassedOver {
  readonly checkpoint: CheckpointId;
  readonly why: string;
}

export type RecoveryPlan =
  | {
      readonly kind: "restore";
      readonly checkpoint: CheckpointId;
      readonly why: string;
      readonly passedOver: readonly PassedOver[];
      readonly findings: readonly Finding[];
      readonly verdict: Verdict;
      /** The run had ended and is taken up again by force. */
      readonly reopens: boolean;
    }
  /** The run is done: resuming it is a success that changes nothing. */
  | { readonly kind: "done"; readonly why: string }
  /** The run ended fatally, or the chosen checkpoint cannot be used. */
  | { readonly kind: "refused"; readonly why: string; readonly hint: string }
  | { readonly kind: "nothing"; readonly why: string; readonly passedOver: readonly PassedOver[] };

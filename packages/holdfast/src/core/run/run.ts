import type { CheckpointParent } from "../checkpoint/checkpoint.ts";
import type { JsonObject } from "../json.ts";

/** Lower-case, safe in a ref, a path and a URL. The one allow-list at the border; everything else trusts it. */
export const RUN_ID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export type Work =
  | { readonly kind: "issue"; readonly number: number }
  | { readonly kind: "task"; readonly text: string }
  | { readonly kind: "none" };

/** Fixed at creation. */
export interface Run {
  readonly id: string;
  readonly createdAt: string;
  readonly workflow: string;
  readonly work: Work;
  /** The checkpoint this run was forked from. */
  readonly forkedFrom: CheckpointParent | null;
  readonly labels: JsonObject;
}

/** Folded from the journal (run-fold.ts); never stored as a fact of its own. */
export type RunState =
  | { readonly kind: "open" }
  | {
      readonly kind: "parked";
      readonly on: ParkedOn;
      readonly reason: string;
      readonly until: string | null;
      /** Absent when no question was put. */
      readonly decision?: PendingDecision;
    }
  | { readonly kind: "done"; readonly at: string }
  | {
      readonly kind: "fatal";
      readonly at: string;
      readonly reason: string;
      /** Somebody ended it; absent: it came to its end by itself. */
      readonly cause?: "aborted";
    };

/** A question to a person, and what may be answered; no options: any text. */
export type PendingDecision = {
  readonly name: string;
  readonly question: string;
  readonly options: readonly string[];
  /** The user may also remove the reason for the question: a resume without an answer runs the stage again, which asks again if the reason stands. */
  readonly recheck?: boolean;
};

/**
 * "quota": the provider refuses further requests for a while. "provider": it, or the connection to it, does not work. "forge": the same of the forge.
 * "session": its time was over, and nothing is waited for but somebody who goes on. "pause": somebody said so, and somebody must say
 * otherwise.
 */
export type ParkedOn = "person" | "quota" | "provider" | "forge" | "budget" | "ci" | "disk" | "session" | "pause";

export interface RunSummary extends Run {
  readonly state: RunState;
  /** Id of the checkpoint whose restore began and never said it finished: the files may be half of each. */
  readonly unfinishedRestore: string | null;
  readonly checkpoints: number;
  readonly latest: {
    readonly sequence: number;
    readonly createdAt: string;
    readonly stage: string;
    readonly iteration: number;
  } | null;
  /** Number of journal entries. */
  readonly entries: number;
}

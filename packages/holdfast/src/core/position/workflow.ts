import type { InputsPlane } from "../checkpoint/checkpoint.ts";
import type { Trigger } from "../checkpoint/trigger.ts";

/** Which stage follows which event, as data. Pairs that are absent are errors, not silence. */
export type TransitionTable = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The part of a workflow that is data: what is checked when it is defined, hashed into its definition, and shown. */
export interface WorkflowShape {
  readonly name: string;
  /** Raised by its author when stages mean something else than before. Part of the definition's hash. */
  readonly version: number;
  readonly initial: string;
  readonly stages: readonly string[];
  readonly events: readonly string[];
  readonly transitions: TransitionTable;
  /** Stages that end the run. One may have a function all the same: it runs before the end is written (a report, a last restore). */
  readonly ends: Readonly<Record<string, "done" | "fatal">>;
}

/** What a stage's work concluded. */
export interface StageResult<S> {
  readonly event: string;
  /** In plain words, for people: why this event. */
  readonly reason: string;
  /** The workflow's own values from now on; absent: unchanged. */
  readonly state?: S;
  /** What the run turned out to work on (issue, base), once it is known; what is absent stays. */
  readonly inputs?: Partial<InputsPlane>;
  /** What the next prompt must be told; absent: unchanged; null: nothing. */
  readonly feedback?: string | null;
  /** Of a review; remembered as the best one when it is. */
  readonly score?: number;
  /** Why the checkpoint at its end is taken, where the stage knows better; absent: "iteration" when a new one begins, else "stage". */
  readonly trigger?: Trigger;
}

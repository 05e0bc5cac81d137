import type { JsonObject } from "../../core/json.ts";
import type { Budget } from "../../core/position/position.ts";
import type { Answers } from "../../core/resume/resume.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import type { TakeUpPlan } from "../../engine/resume/resume-run.ts";
import type { AdoptParams } from "../foreign/plan-adoption.ts";
import type { PlaceParams } from "./place-request.ts";

/** A run that is to be taken up, as whoever wants it says it. */
export interface ResumeParams<S extends JsonObject = JsonObject> {
  readonly run: string;
  /** Needed for runs of a workflow of your own. */
  readonly workflow?: Workflow<S>;
  /** What is said to findings that need a decision. */
  readonly answers?: Answers;
  /** Sequence of a checkpoint to go back to. */
  readonly from?: number;
  /** Take up a run that has ended; needs `from`. */
  readonly force?: boolean;
  readonly limit?: Partial<Budget["limit"]>;
  /** Another agent than the one it had, as `provider:model`. */
  readonly agent?: string;
  /** Only wake it, if it is still parked until this time: LEASE_HELD when somebody else did. */
  readonly wakes?: string;
  /** For a run that was imported and is carried on for the first time; of no account for any other. */
  readonly adopt?: AdoptParams;
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** How long to work on it at most, in milliseconds: then it is saved and parked on "session". A new session has a new time. */
  readonly sessionMs?: number;
  readonly place?: PlaceParams;
  readonly priority?: number;
}

export interface Preflight extends TakeUpPlan {
  /** What else whoever resumes must know: it hinders nothing. */
  readonly notes: readonly string[];
}

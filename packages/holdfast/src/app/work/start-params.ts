import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Budget } from "../../core/position/position.ts";
import type { Work } from "../../core/run/run.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import type { OwnWorkflow } from "./choose-workflow.ts";
import type { PlaceParams } from "./place-request.ts";

/** A run that is to be begun, as whoever wants it says it. */
export interface StartParams<S extends JsonObject = JsonObject> {
  /** "impl" (default): from an issue to a pull request. "crunch": phase by phase, with a team. "ralph": round and round until a command says that it is done. */
  readonly workflow?: OwnWorkflow | Workflow<S>;
  readonly work: Work;
  /** The workflow's own; kept with the run. */
  readonly options?: JsonObject;
  /** Who works, as `provider:model`. */
  readonly agent?: string | null;
  readonly limit?: Partial<Budget["limit"]>;
  readonly labels?: JsonObject;
  readonly id?: string;
  /**
   * Begin a new run although an earlier one of the same work has ended. Without it the outcome of that run is returned and nothing is done. Of a
   * task in words also although a run of it is unfinished.
   */
  readonly again?: boolean;
  /** Branch to start from; default the remote's own. */
  readonly base?: string | null;
  /** "new": a worktree of its own (default inside a repository). "none": values only. */
  readonly workspace?: "new" | "none";
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** How long to work on it at most, in milliseconds: then it is saved and parked on "session". A new session has a new time. */
  readonly sessionMs?: number;
  /** Of a loop: whether it waits for a place when as many are at work as may be. */
  readonly place?: PlaceParams;
  /** Of a loop: who comes first when several wait. Kept; it can be changed at any time. */
  readonly priority?: number;
  /** What is recorded of it, and whether it may part from that; docs/reproducibility.md. Default "default": nothing beyond its journal. */
  readonly mode?: ExecutionConfig["mode"];
  /** Of a run in mode "seeded"; made up when absent. */
  readonly seed?: number;
}

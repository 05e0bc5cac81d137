import type { Divergence } from "../../core/replay/divergence.ts";
import type { Problem } from "../../ports/store.ts";

export interface ReplayReport {
  readonly run: string;
  /** "damaged": bytes of the record are not what they were, so nothing was replayed. */
  readonly verdict: "identical" | "diverged" | "damaged";
  readonly divergence: Divergence | null;
  readonly problems: readonly Problem[];
  /** Of the record. */
  readonly from: number;
  /** Last checkpoint that came out as it was; null: none. */
  readonly to: number | null;
  readonly iteration: number;
  readonly steps: number;
  /** Calls of agents that were answered from the record. None was started. */
  readonly agents: number;
  /** Checkpoints made again and found the same. */
  readonly compared: number;
  /** Checkpoints that somebody asked for, or that an interruption left: put in as they were. */
  readonly filled: number;
  /** How the run stands at the end of the replay. */
  readonly outcome: "open" | "parked" | "done" | "fatal";
}

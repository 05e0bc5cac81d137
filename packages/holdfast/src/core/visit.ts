import type { Json } from "./json.ts";

/**
 * One stay in a stage, from entering it to its transition. It is part of the position, so a checkpoint taken in the
 * middle of a stage (after an agent call, by a timer, by Ctrl+C) knows what was finished: restored or forked, the stage
 * function runs again and every finished step answers from here.
 */
export interface Visit {
  /** How many stages the run has entered, this one included; 0 before the first. Bounds a workflow that never ends. */
  readonly number: number;
  /** Results of the steps that this visit has finished, by name. */
  readonly steps: Readonly<Record<string, Json>>;
  /** Failed tries of steps not finished yet, by name: their own budget, which a restart must not refill. */
  readonly failures: Readonly<Record<string, number>>;
}

export const NO_VISIT: Visit = { number: 0, steps: {}, failures: {} };

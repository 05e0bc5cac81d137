import type { CallErrors } from "../error-policy/call-errors.ts";
import type { Json } from "../json.ts";
import type { Amounts } from "./position.ts";

/**
 * One stay in a stage, from entering it to its transition. It is part of the position, so a checkpoint taken in the
 * middle of a stage (after an agent call, by a timer, by Ctrl+C) knows what was finished: restored or forked, the stage
 * function runs again and every finished step answers from here.
 */
export interface Visit {
  /**
   * How many stages the run has entered, this one included; 0 before the first. Bounds a workflow that never ends. Never
   * given twice in a run, not even after a restore: effects are told apart by it.
   */
  readonly number: number;
  /** Results of the steps that this visit has finished, by name. */
  readonly steps: Readonly<Record<string, Json>>;
  /** Failed tries of steps not finished yet, by name: their own budget, which a restart must not refill. */
  readonly failures: Readonly<Record<string, number>>;
  /** Steps begun and not ended. A checkpoint that names one was taken in its middle: its files are half of it. */
  readonly running?: Readonly<Record<string, RunningStep>>;
  /**
   * Sessions of agent calls not finished yet, by step, of agents that can go on with them. null: none that can be gone on with; the next try
   * begins a fresh one, which is handed over what was done.
   */
  readonly sessions?: Readonly<Record<string, string | null>>;
  /** The position's graph was set by this visit; else it is what an earlier one left. */
  readonly graph?: boolean;
  /**
   * Events that steps recorded and that are not in the values yet, oldest first: only the workflow can take them in, and
   * whoever wrote this position did not have it.
   */
  readonly unreduced?: readonly Json[];
  /** Agent calls not finished yet that work aside, and the aside of each: their half work is there, not in the run's own files. */
  readonly asides?: Readonly<Record<string, string>>;
  /** Agent calls that died with their process, by step, until it is known what they took or they start again. Their reserved amounts count as spent. */
  readonly lost?: Readonly<Record<string, RunningStep>>;
  /** What failed tries of agent calls not finished yet have come to, by step. */
  readonly errors?: Readonly<Record<string, CallErrors>>;
  /**
   * Checkpoint `of` was taken while only calls worked that are to change nothing here, and its files are others than those of `at`, the newest that are what
   * those left who may change them. In any other checkpoint that this was copied to, it says nothing.
   */
  readonly settled?: { readonly of: number; readonly at: number };
}

export interface RunningStep {
  readonly files: boolean;
  /** Set aside for it; null for a step that is no agent call. */
  readonly estimate: Amounts | null;
  /** Newest checkpoint that holds nothing of it: where its files go back to. */
  readonly base: number;
  /** Tokens that stood in the agent's own record of the session when the call began: what is there beyond them is this call's. */
  readonly counted?: RecordTokens;
  /** An interrupted agent call whose usage is in the budget already: the next process does not count it again. */
  readonly settled?: boolean;
}

export type RecordTokens = { readonly input: number; readonly output: number };

export const NO_VISIT: Visit = { number: 0, steps: {}, failures: {} };

/**
 * A stay of its own, under a number that no effect has. What was in the middle of something is still to be put back, and events that nobody has
 * taken in yet are still to be.
 */
export function nextVisit({ number, running, unreduced }: Visit): Visit {
  return {
    number: number + 1,
    steps: {},
    failures: {},
    ...(running === undefined ? {} : { running }),
    ...(unreduced === undefined ? {} : { unreduced }),
  };
}

import type { Digest } from "../json.ts";
import type { Graph } from "../graph/graph.ts";
import type { Visit } from "./visit.ts";

/** Where a run stands in its workflow, complete: what is not here does not survive a crash. */
export interface Position {
  readonly workflow: string;
  /** Hash of the workflow definition; null for runs without one (library use). */
  readonly definition: Digest | null;
  readonly stage: string;
  /** 1-based; 0 before the first implementation round. */
  readonly iteration: number;
  readonly attempts: Readonly<Record<string, number>>;
  readonly streaks: Readonly<Record<string, number>>;
  readonly score: number | null;
  readonly best: { readonly sequence: number; readonly score: number } | null;
  readonly graph: Graph | null;
  readonly budget: Budget;
  /** What the next prompt must be told. */
  readonly feedback: string | null;
  /** Why the run came into this stage, in plain words; null at the start. */
  readonly reason: string | null;
  readonly visit: Visit;
  /** What the nonces in this run's prompts are derived from (core/agent/fence.ts). Absent in runs of before there were any. */
  readonly fence?: string;
  /** The user has answered that agents may act without asking from now on. Absent: as the workflow's options say. */
  readonly yolo?: boolean;
}

/** A type and no interface: it is written into journal entries as it is. */
export type Amounts = {
  readonly tokens: number;
  /** Millionths of a US dollar, so that money is an integer. */
  readonly microUsd: number;
  readonly milliseconds: number;
  /** Calls whose price nobody knows: what they cost is not in `microUsd`. Absent: none. */
  readonly unpriced?: number;
  /** Calls whose tokens are unknown: they are in no sum, and not zero. Absent: none. */
  readonly uncounted?: number;
};

export interface Budget {
  readonly spent: Amounts;
  readonly reserved: Amounts;
  /** Counts against the limits for calls that were cut off and whose usage is unknown. It is an assumption, so it is not in `spent`. */
  readonly held?: Amounts;
  /** null: no limit. */
  readonly limit: { readonly [K in "tokens" | "microUsd" | "milliseconds"]: number | null };
}

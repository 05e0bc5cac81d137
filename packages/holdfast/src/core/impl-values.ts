import type { JsonObject } from "./json.ts";

/** What an `impl` run keeps among its values before its setup has found anything: as it begins, and as it is imported. */
export const NO_IMPL_VALUES = {
  issue: null,
  base: null,
  templates: null,
  progress: null,
  output: null,
  commitReport: null,
  finalize: null,
  reviews: [],
  failing: null,
  pushed: null,
  pullRequest: null,
  stuckReport: null,
  history: [],
} as const satisfies JsonObject;

/** One line of its history. */
export type ImplHistoryEntry = {
  readonly stage: string;
  readonly iteration: number;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly result: "success" | "failure" | "retry";
  readonly event: string;
  readonly reason: string;
  readonly score: number | null;
};

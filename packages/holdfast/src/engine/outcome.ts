import type { Finding } from "../core/resume/finding.ts";
import type { ParkedOn } from "../core/run/run.ts";

/** How a stretch of work on a run ended. Whatever it is, everything up to here is saved. */
export type RunOutcome =
  | { readonly kind: "done"; readonly reason: string }
  | { readonly kind: "fatal"; readonly reason: string }
  | { readonly kind: "parked"; readonly on: ParkedOn; readonly reason: string; readonly until: string | null }
  | { readonly kind: "interrupted" }
  /** Nothing was done: the world is not as it was, and somebody must say what to do. */
  | { readonly kind: "ask"; readonly findings: readonly Finding[] };

import type { AgentEvent } from "../ports/agent.ts";
import type { CheckpointSummary } from "../core/checkpoint/checkpoint.ts";
import type { ErrorVerdict } from "../core/error-policy/call-errors.ts";
import type { Finding } from "../core/resume/finding.ts";
import type { GraphEvent } from "../core/graph/graph-state.ts";
import type { ParkedOn } from "../core/run/run.ts";

/**
 * What a runner tells whoever watches, as it happens. News only: the journal is the record, and a front end that comes
 * late reads that. Listeners must not throw and cannot slow a run down.
 */
export type ProgressEvent = { readonly run: string; readonly at: string } & (
  | { readonly kind: "started"; readonly stage: string; readonly iteration: number; readonly resumed: boolean }
  | { readonly kind: "findings"; readonly findings: readonly Finding[] }
  | { readonly kind: "stage_entered"; readonly stage: string; readonly iteration: number; readonly visit: number }
  | {
      readonly kind: "stage_ended";
      readonly stage: string;
      readonly event: string;
      readonly reason: string;
      readonly next: string;
      readonly iteration: number;
      readonly score: number | null;
    }
  | { readonly kind: "step_started"; readonly step: string }
  /** `replayed`: it was finished before; nothing ran. */
  | { readonly kind: "step_finished"; readonly step: string; readonly replayed: boolean }
  | {
      readonly kind: "step_failed";
      readonly step: string;
      readonly reason: string;
      readonly retryAt: string | null;
      readonly verdict?: ErrorVerdict;
    }
  | { readonly kind: "agent"; readonly step: string; readonly event: AgentEvent }
  | {
      readonly kind: "effect";
      readonly key: string;
      readonly what: "intended" | "acted" | "adopted" | "failed" | "unknown";
    }
  /** What happened to nodes of the visit's graph. */
  | { readonly kind: "graph_moved"; readonly events: readonly GraphEvent[] }
  | { readonly kind: "checkpoint"; readonly checkpoint: CheckpointSummary }
  | { readonly kind: "budget"; readonly text: string }
  | { readonly kind: "note"; readonly text: string }
  | { readonly kind: "parked"; readonly on: ParkedOn; readonly reason: string; readonly until: string | null }
  | { readonly kind: "ended"; readonly outcome: "done" | "fatal"; readonly reason: string }
);

export type ProgressListener = (event: ProgressEvent) => void;

// What a worker reports while it executes a run: progress events, the outcome, and the signals that halt its work.

import { HoldfastError } from "@holdfast/platform/error";
import type { AgentEvent } from "./agent.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import type { Finding } from "./findings.ts";
import type { GraphEvent } from "./graph-state.ts";
import type { ErrorVerdict } from "./position.ts";
import type { WaitingFor } from "./run.ts";

/**
 * Events that a worker emits to its listeners as they happen. The journal is the record: a front end that starts late reads that. Listeners
 * must not throw and cannot slow a run down.
 */
export type ProgressEvent = { readonly run: string; readonly at: string } & (
  | { readonly kind: "started"; readonly stage: string; readonly iteration: number; readonly resumed: boolean }
  | { readonly kind: "findings"; readonly findings: readonly Finding[] }
  | {
      readonly kind: "stage_entered";
      readonly stage: string;
      readonly iteration: number;
      readonly stageAttempt: number;
    }
  | {
      readonly kind: "stage_ended";
      readonly stage: string;
      readonly event: string;
      readonly reason: string;
      readonly next: string;
      readonly iteration: number;
      readonly score: number | null;
    }
  /** `title`: what the step does, in the workflow's words. */
  | { readonly kind: "step_started"; readonly step: string; readonly title?: string }
  /** `replayed`: the step had finished before; nothing was executed. */
  | { readonly kind: "step_finished"; readonly step: string; readonly replayed: boolean; readonly title?: string }
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
  /** What happened to nodes of the stage attempt's graph. */
  | { readonly kind: "graph_moved"; readonly events: readonly GraphEvent[] }
  | { readonly kind: "checkpoint"; readonly checkpoint: CheckpointSummary }
  | { readonly kind: "budget"; readonly text: string }
  /** `output`: the last lines of a command. */
  | { readonly kind: "note"; readonly text: string; readonly output?: readonly string[] }
  | { readonly kind: "waiting"; readonly for: WaitingFor; readonly reason: string; readonly until: string | null }
  | { readonly kind: "paused"; readonly reason: string }
  | { readonly kind: "ended"; readonly outcome: "done" | "failed" | "aborted"; readonly reason: string }
);

export type ProgressListener = (event: ProgressEvent) => void;

/** How one execution of a run ended. Whatever the outcome, everything up to here is saved. */
export type RunOutcome =
  | { readonly kind: "done" | "failed" | "aborted" | "paused"; readonly reason: string }
  | { readonly kind: "waiting"; readonly for: WaitingFor; readonly reason: string; readonly until: string | null }
  | { readonly kind: "interrupted" }
  /** Nothing was executed: the world has changed, and the user must decide. */
  | { readonly kind: "ask"; readonly findings: readonly Finding[] };

/** The outcome of a pause or abort signal. */
export type StoppedByUser =
  | { readonly kind: "paused"; readonly reason: string }
  | { readonly kind: "aborted"; readonly reason: string };

/**
 * Thrown through a stage function to end this process's work on a run in order. A stage that catches it gets it again at its next call, and
 * the stage's result is ignored.
 */
export class Stopped extends Error {
  readonly outcome: Extract<RunOutcome, { readonly kind: "waiting" | "interrupted" }> | StoppedByUser;

  /** The checkpoint of this outcome is already saved, by the stage call that made the run wait. */
  readonly saved: boolean;

  constructor(outcome: Stopped["outcome"], params: { readonly saved: boolean }) {
    super(outcome.kind === "interrupted" ? "The run was interrupted" : `The run is ${outcome.kind}: ${outcome.reason}`);
    this.name = "Stopped";
    this.outcome = outcome;
    this.saved = params.saved;
  }
}

/** Thrown like Stopped when the error policy ends the run: the run fails with this reason. */
export class Aborted extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "Aborted";
  }
}

/** Whether work must stop, and why. The first cause counts. */
export class Halt {
  readonly signal: AbortSignal;
  #wish = new AbortController();
  /** Resolves when work must stop. */
  readonly halted: Promise<void>;
  readonly #stop: (cause: Error) => void;
  #cause: Error | undefined;

  constructor() {
    const controller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.signal = controller.signal;
    this.halted = promise;
    this.#stop = (cause) => {
      controller.abort(cause);
      resolve();
    };
  }

  get cause(): Error | undefined {
    return this.#cause;
  }

  stop(cause: Error): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#stop(cause);
  }

  /** Ends the run, whatever else its stage is doing. */
  abort(reason: string): never {
    const aborted = new Aborted(reason);
    this.stop(aborted);
    throw aborted;
  }

  /** Aborted when work shall stop at the next safe point: work in flight may finish, a wait ends early. */
  get wished(): AbortSignal {
    return this.#wish.signal;
  }

  /** Requests a stop at the next point where nothing is in flight; such a point calls `checkWish`. Replaces an earlier request. */
  wish(cause: Error): void {
    this.unwish();
    this.#wish.abort(cause);
  }

  /** Withdraws a request that no safe point has seen yet. */
  unwish(): void {
    if (this.#wish.signal.aborted) this.#wish = new AbortController();
  }

  /** Called at a safe point. */
  checkWish(): void {
    const { aborted, reason } = this.wished;
    if (aborted && reason instanceof Error) this.stop(reason);
    this.check();
  }

  check(): void {
    if (this.#cause !== undefined) throw this.#cause;
  }
}

/** Formats an error as one line. */
export function reasonOf(error: unknown): string {
  if (error instanceof HoldfastError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

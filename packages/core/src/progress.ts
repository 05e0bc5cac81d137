import { HoldfastError } from "@holdfast/platform/error";
import type { AgentEvent } from "./agent.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import type { Finding } from "./findings.ts";
import type { GraphEvent } from "./graph-state.ts";
import type { ErrorVerdict } from "./position.ts";
import type { WaitingFor } from "./run.ts";

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
  | { readonly kind: "parked"; readonly on: WaitingFor; readonly reason: string; readonly until: string | null }
  | { readonly kind: "ended"; readonly outcome: "done" | "fatal"; readonly reason: string }
);

export type ProgressListener = (event: ProgressEvent) => void;

/** How a stretch of work on a run ended. Whatever it is, everything up to here is saved. */
export type RunOutcome =
  | { readonly kind: "done"; readonly reason: string }
  | { readonly kind: "fatal"; readonly reason: string }
  | { readonly kind: "parked"; readonly on: WaitingFor; readonly reason: string; readonly until: string | null }
  | { readonly kind: "interrupted" }
  /** Nothing was done: the world is not as it was, and somebody must say what to do. */
  | { readonly kind: "ask"; readonly findings: readonly Finding[] };

/**
 * Thrown through a stage function to end this process's work on a run in order. A stage that catches it meets it again
 * at its next call, and what the stage concludes afterwards is not looked at.
 */
export class Stopped extends Error {
  /** "fatal": it was aborted. */
  readonly outcome: Extract<RunOutcome, { readonly kind: "parked" | "interrupted" | "fatal" }>;

  /** With the checkpoint that belongs to it: whoever parks by a call of the stage saves in that call. */
  readonly saved: boolean;

  constructor(outcome: Stopped["outcome"], params: { readonly saved: boolean }) {
    super(outcome.kind === "interrupted" ? "The run was interrupted" : `The run is ${outcome.kind}: ${outcome.reason}`);
    this.name = "Stopped";
    this.outcome = outcome;
    this.saved = params.saved;
  }
}

/** Thrown as Stopped is, when the error policy says that the run ends: it goes to its fatal end with this reason. */
export class Aborted extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "Aborted";
  }
}

/** Whether work must stop, and why. The first cause stands. */
export class Halt {
  readonly signal: AbortSignal;
  #wish = new AbortController();
  /** Settles when work must stop. */
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

  /** The run ends, whatever else its stage is at. */
  abort(reason: string): never {
    const aborted = new Aborted(reason);
    this.stop(aborted);
    throw aborted;
  }

  /** Aborted when work shall stop at the next safe point: what is under way may finish, a wait need not. */
  get wished(): AbortSignal {
    return this.#wish.signal;
  }

  /** Stop where nothing is under way: whoever comes to such a point calls `checkWish`. Takes the place of an earlier wish. */
  wish(cause: Error): void {
    this.unwish();
    this.#wish.abort(cause);
  }

  /** For one that is taken back before such a point was reached. */
  unwish(): void {
    if (this.#wish.signal.aborted) this.#wish = new AbortController();
  }

  /** At a safe point. */
  checkWish(): void {
    const { aborted, reason } = this.wished;
    if (aborted && reason instanceof Error) this.stop(reason);
    this.check();
  }

  check(): void {
    if (this.#cause !== undefined) throw this.#cause;
  }
}

/** What went wrong, in a line. */
export function reasonOf(error: unknown): string {
  if (error instanceof HoldfastError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

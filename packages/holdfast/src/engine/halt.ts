import type { RunOutcome } from "./outcome.ts";

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

/** Whether work must stop, and why. The first cause stands. */
export class Halt {
  readonly signal: AbortSignal;
  /** Aborted when work shall stop at the next safe point: what is under way may finish, a wait need not. */
  readonly wished: AbortSignal;
  readonly #wish = new AbortController();
  /** Settles when work must stop. */
  readonly halted: Promise<void>;
  readonly #stop: (cause: Error) => void;
  #cause: Error | undefined;

  constructor() {
    const controller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.signal = controller.signal;
    this.wished = this.#wish.signal;
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

  /** Stop where nothing is under way. Whoever comes to such a point calls `checkWish`. */
  wish(cause: Error): void {
    this.#wish.abort(cause);
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

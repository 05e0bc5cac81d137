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

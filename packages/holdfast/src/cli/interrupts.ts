import type { EventEmitter } from "node:events";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outcome } from "./command.ts";
import type { Exit } from "./exit.ts";

/**
 * First Ctrl+C (or SIGTERM, or a terminal that was closed): waiting stops, the store is closed in order, exit 130 (143).
 * Second: the process leaves at once; what was committed is durable, so that is safe too. A terminal that is closed tells it
 * more than once, by itself and by its shell, and nobody is there who could be in a hurry.
 */
export interface Interrupts {
  readonly signal: AbortSignal;
  /** Set once a signal came. */
  exit(): Exit | undefined;
  /** The work, or INTERRUPTED as soon as a signal comes. */
  race<T>(work: Promise<T>): Promise<T>;
  stop(): void;
}

export function createInterrupts(
  source: Pick<EventEmitter, "on" | "off">,
  leave: (status: number) => void,
): Interrupts {
  const controller = new AbortController();
  let exit: Exit | undefined;
  const handle = (kind: Exit, status: number) => () => {
    if (exit !== undefined) return leave(status);
    exit = kind;
    controller.abort(new HoldfastError({ code: "INTERRUPTED", message: "Interrupted" }));
  };
  const onInterrupt = handle("interrupted", 130);
  const onTerminate = handle("terminated", 143);
  source.on("SIGINT", onInterrupt);
  source.on("SIGTERM", onTerminate);
  const onHangUp = (): void => {
    if (exit === undefined) onTerminate();
  };
  source.on("SIGHUP", onHangUp);
  return {
    signal: controller.signal,
    exit: () => exit,
    async race(work) {
      const value = await Promise.race([work, aborted(controller.signal)]);
      // Work that ends because of the signal (a watch) was interrupted too, whoever is first to say so.
      controller.signal.throwIfAborted();
      return value;
    },
    stop() {
      source.off("SIGINT", onInterrupt);
      source.off("SIGTERM", onTerminate);
      source.off("SIGHUP", onHangUp);
    },
  };
}

/** The work, or the reason of the signal as soon as it comes: for work that a signal does not end, such as a request to a forge. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return await Promise.race([work, aborted(signal)]);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** One sentence that is true: a signal leaves people wondering whether their work is there. */
export function interruptedError(exit: Exit, done: readonly string[]): HoldfastError {
  const what = exit === "terminated" ? "Terminated" : "Interrupted";
  const message = done.length === 0 ? `${what}; nothing was changed.` : `${what}, but ${done.join(" and ")}.`;
  return new HoldfastError({ code: "INTERRUPTED", message, data: { done } });
}

export interface PendingResult {
  /** Clauses, in the order in which the work was begun: "run fix-login was started", "fix-login@1 was saved". */
  readonly done: readonly string[];
  readonly failures: readonly unknown[];
}

/** Work that goes on after Ctrl+C, because half of it would be worse than none. */
export function createPendingWork(): {
  add<T>(work: Promise<T>, outcome: Outcome<T>): Promise<T>;
  settle(): Promise<PendingResult>;
} {
  const under: Promise<{ readonly done: string | null; readonly failures: readonly unknown[] }>[] = [];
  return {
    add(work, outcome) {
      under.push(
        work.then(
          (value) => ({ done: outcome.done(value), failures: [] }),
          async (error: unknown) => ({
            done: (await outcome.failed?.().catch(() => null)) ?? null,
            failures: [error],
          }),
        ),
      );
      return work;
    },
    async settle() {
      const ended = await Promise.all(under);
      return {
        done: ended.flatMap(({ done }) => done ?? []),
        failures: ended.flatMap(({ failures }) => failures),
      };
    },
  };
}

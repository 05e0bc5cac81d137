import type { EventEmitter } from "node:events";
import { HoldfastError } from "../core/error.ts";
import type { Exit } from "../core/exit.ts";

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

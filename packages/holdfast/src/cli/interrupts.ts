/** Handles Ctrl+C, SIGTERM and a closed terminal, and tracks the work that must finish first. */
import type { EventEmitter } from "node:events";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outcome } from "./command.ts";
import type { Exit } from "./exit.ts";

/**
 * First Ctrl+C (or SIGTERM, or a closed terminal): waiting stops, the store is closed cleanly, exit 130 (143). Second:
 * the process exits at once; committed data is durable, so this is safe too. A closed terminal sends SIGHUP more than
 * once (itself and through its shell), so a repeated SIGHUP has no effect.
 */
export interface Interrupts {
  readonly signal: AbortSignal;
  /** The exit status of the signal; undefined until one came. */
  exit(): Exit | undefined;
  /** Resolves with the work, or rejects with INTERRUPTED as soon as a signal comes. */
  race<T>(work: Promise<T>): Promise<T>;
  stop(): void;
}

export function createInterrupts(
  source: Pick<EventEmitter, "on" | "off">,
  leave: (status: number) => void,
): Interrupts {
  const controller = new AbortController();
  let exit: Exit | undefined;
  const handle = (kind: Exit, status: number, name: NodeJS.Signals) => () => {
    if (exit !== undefined) return leave(status);
    exit = kind;
    controller.abort(new HoldfastError({ code: "INTERRUPTED", message: "Interrupted", data: { signal: name } }));
  };
  const onInterrupt = handle("interrupted", 130, "SIGINT");
  const onTerminate = handle("terminated", 143, "SIGTERM");
  const onClosedTerminal = handle("terminated", 143, "SIGHUP");
  source.on("SIGINT", onInterrupt);
  source.on("SIGTERM", onTerminate);
  const onHangUp = (): void => {
    if (exit === undefined) onClosedTerminal();
  };
  source.on("SIGHUP", onHangUp);
  return {
    signal: controller.signal,
    exit: () => exit,
    async race(work) {
      const value = await Promise.race([work, aborted(controller.signal)]);
      // Work that ends because of the signal (a watch) was interrupted too, whichever promise settles first.
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

/**
 * Whether SIGTERM stopped the work: the system shuts down, or a service stops. Ctrl+C and a closed terminal are the
 * user's own wish.
 */
export function isTerminated({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof HoldfastError && reason.data["signal"] === "SIGTERM";
}

/**
 * Resolves with the work, or rejects with the signal's reason as soon as it aborts. For work that a signal does not
 * end, such as a request to a forge.
 */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return await Promise.race([work, aborted(signal)]);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** States in one sentence what was saved, because after a signal users ask whether their work is safe. */
export function interruptedError(exit: Exit, done: readonly string[]): HoldfastError {
  const what = exit === "terminated" ? "Terminated" : "Interrupted";
  const message = done.length === 0 ? `${what}; nothing was changed.` : `${what}, but ${done.join(" and ")}.`;
  return new HoldfastError({ code: "INTERRUPTED", message, data: { done } });
}

export interface PendingResult {
  /** Clauses, in the order in which the work started: "run fix-login was started", "fix-login@1 was saved". */
  readonly done: readonly string[];
  readonly failures: readonly unknown[];
}

/** Tracks work that continues after Ctrl+C, because half of it would be worse than none. */
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

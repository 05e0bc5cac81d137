import { HoldfastError } from "../core/error.ts";
import type { Exit } from "../core/exit.ts";

/** One sentence that is true: a signal leaves people wondering whether their work is there. */
export function interruptedError(exit: Exit, done: readonly string[]): HoldfastError {
  const what = exit === "terminated" ? "Terminated" : "Interrupted";
  const message = done.length === 0 ? `${what}; nothing was changed.` : `${what}, but ${done.join(" and ")}.`;
  return new HoldfastError({ code: "INTERRUPTED", message, data: { done } });
}

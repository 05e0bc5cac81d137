import { ERROR_CODES, HoldfastError } from "../../core/error.ts";

/** Thrown through the engine to end a replay where its record ends, or where it parts from it. */
export class PlayEnd extends Error {
  constructor(why: string) {
    super(why);
    this.name = "PlayEnd";
  }
}

/** A failed try as it was recorded. What stages decide by is its code. */
export function playedFailure(came: { readonly reason: string; readonly code: string | null }): Error {
  const code = ERROR_CODES.find((known) => known === came.code);
  const error = code === undefined ? new Error(came.reason) : new HoldfastError({ code, message: came.reason });
  failures.add(error);
  return error;
}

export function isPlayedFailure(error: unknown): boolean {
  return error instanceof Error && failures.has(error);
}

const failures = new WeakSet<Error>();

// The clock that the engine injects, so that tests can set the time.

/** Timestamps are labels and never decide an order. Tests inject a clock that jumps. */
export interface Clock {
  /** Milliseconds since the epoch. May jump back. */
  now(): number;
  /**
   * Milliseconds from an arbitrary start, monotonic: no clock change affects it. If absent, callers use `now` instead.
   */
  elapsed?(): number;
}

export const systemClock: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/**
 * The longest delay of one Node timer, about 24 days. Node fires a timer with a longer delay immediately, so callers
 * clamp to this.
 */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Time is a label, never an order. Injected so that tests can jump it. */
export interface Clock {
  /** Milliseconds since the epoch. May jump back. */
  now(): number;
  /** Milliseconds that have passed, from any start; nobody can set it. Absent: `now` is taken for as good. */
  elapsed?(): number;
}

export const systemClock: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/** A timer set for longer than this fires at once. Whoever waits in one go waits at most so long: 24 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A timer set for longer than this fires at once. Whoever waits in one go waits at most so long: 24 days. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

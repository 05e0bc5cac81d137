/** Time is a label, never an order. Injected so that tests can jump it. */
export interface Clock {
  /** Milliseconds since the epoch. May jump back. */
  now(): number;
}

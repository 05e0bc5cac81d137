/** Time is a label, never an order. Injected so that tests can jump it. */
export interface Clock {
  /** Milliseconds since the epoch. May jump back. */
  now(): number;
  /** Milliseconds that have passed, from any start; nobody can set it. Absent: `now` is taken for as good. */
  elapsed?(): number;
}

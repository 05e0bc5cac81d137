/** The exclusive right to write a run. Every write carries the epoch; a stale epoch is refused inside the transaction. */
export interface Lease {
  readonly run: string;
  readonly epoch: number;
  readonly owner: LeaseOwner;
  readonly takenAt: string;
  readonly heartbeatAt: string;
  /** Of a run that counts among those whose number is limited: at work, or in the queue for it. Absent: it does not count. */
  readonly slot?: "working" | "waiting";
}

/** Enough to tell a live owner from a dead one, and a re-used pid from the same process. */
export interface LeaseOwner {
  /** Random, one a store handle: two handles in one process are two owners. */
  readonly token: string;
  readonly host: string;
  readonly pid: number;
  /** Start time of the process as the kernel tells it; null where it cannot be read. */
  readonly started: string | null;
  readonly boot: string | null;
  /** What to show a person: "holdfast run issue-42". */
  readonly label: string;
}

export type OwnerLiveness = "alive" | "dead" | "unknown";

import type { Lease } from "./lease.ts";

/** What a writer shows: enough to tell whether its lease still holds. */
export interface LeaseClaim {
  readonly run: string;
  readonly epoch: number;
  readonly token: string;
}

export function claimOf(lease: Lease): LeaseClaim {
  return { run: lease.run, epoch: lease.epoch, token: lease.owner.token };
}

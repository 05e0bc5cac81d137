import { HoldfastError } from "../core/error.ts";
import type { Lease } from "../core/lease.ts";
import type { Parts } from "./parts.ts";

const HEARTBEAT_MS = 30_000;

export interface HeldLease extends AsyncDisposable {
  readonly lease: Lease;
  /** Somebody else has the run: told at the latest by the next heartbeat, also while nothing is written. */
  onLost(tell: (error: HoldfastError) => void): void;
}

/** LEASE_HELD passes through. Disposing lets go of it; one that is lost is no error there. */
export async function holdLease(parts: Parts, run: string): Promise<HeldLease> {
  const { store } = parts;
  const lease = await store.takeLease({ run, label: `holdfast run ${run}` });
  let tellLost: ((error: HoldfastError) => void) | undefined;
  const beat = (): void => {
    store.renewLease(lease).catch((error: unknown) => {
      // Anything else is the disk's or the network's, and may pass; each write looks for itself.
      if (error instanceof HoldfastError && error.code === "LEASE_LOST") tellLost?.(error);
    });
  };
  const timer = setInterval(beat, HEARTBEAT_MS);
  timer.unref();
  return {
    lease,
    onLost(tell) {
      tellLost = tell;
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      // It would hide what made us let go; a lease that stays behind ends with its handle.
      await store.releaseLease(lease).catch(() => undefined);
    },
  };
}

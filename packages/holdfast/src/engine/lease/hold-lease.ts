import { HoldfastError } from "../../core/error.ts";
import { HEARTBEAT_MS } from "../../core/lease/heartbeat.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RunBirth, SlotWish, Store } from "../../ports/store.ts";
import { refuseRolledBack } from "../save/newer-refs.ts";
import type { Parts } from "../parts.ts";

export interface HeldLease extends AsyncDisposable {
  readonly lease: Lease;
  /** Somebody else has the run: told at the latest by the next heartbeat, also while nothing is written. */
  onLost(tell: (error: HoldfastError) => void): void;
}

/**
 * LEASE_HELD and LOOP_LIMIT pass through. Disposing lets go of it; one that is lost is no error there. Whoever holds the run already shares the
 * lease with what it calls, and the last one lets go: so a place among those at work is kept from the first act to the last.
 */
export async function holdLease(parts: Parts, run: string, slot?: SlotWish, birth?: RunBirth): Promise<HeldLease> {
  // A run that is gone from a store that was rolled back would be done again under its own name.
  if (birth !== undefined) await refuseRolledBack(parts, run);
  const { store } = parts;
  const label = `holdfast run ${run}`;
  const lease = await store.takeLease({
    run,
    label,
    ...(slot === undefined ? {} : { slot }),
    ...(birth === undefined ? {} : { birth }),
  });
  let tellLost: ((error: HoldfastError) => void) | undefined;
  const beat = (): void => {
    store.renewLease(lease).catch((error: unknown) => {
      // Anything else is the disk's or the network's, and may pass; each write looks for itself.
      if (error instanceof HoldfastError && error.code === "LEASE_LOST") tellLost?.(error);
    });
  };
  const timer = setInterval(beat, HEARTBEAT_MS);
  timer.unref();
  const holders = holdersOf(store);
  const key = `${run} ${lease.epoch}`;
  holders.set(key, (holders.get(key) ?? 0) + 1);
  return {
    lease,
    onLost(tell) {
      tellLost = tell;
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      const left = (holders.get(key) ?? 1) - 1;
      if (left > 0) return void holders.set(key, left);
      holders.delete(key);
      // It would hide what made us let go; a lease that stays behind ends with its handle.
      await store.releaseLease(lease).catch(() => undefined);
    },
  };
}

/** How often each lease is held in this process, by run and epoch. */
const held = new WeakMap<Store, Map<string, number>>();

function holdersOf(store: Store): Map<string, number> {
  const known = held.get(store) ?? new Map<string, number>();
  held.set(store, known);
  return known;
}

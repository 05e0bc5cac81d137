import assert from "node:assert/strict";
import type { LeaseOwner } from "../../core/lease/lease.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store.ts";

/** One store under test, fresh for each case. */
export interface StoreHarness {
  /** Another handle on the same store. It takes leases as `identity`, by default as this process. */
  open(identity?: OwnerIdentity): Promise<Store>;
  /** The clock of every handle. It moves only when it is told to. */
  readonly clock: SetClock;
}

export type OwnerIdentity = Pick<LeaseOwner, "host" | "pid" | "started" | "boot">;

export interface StoreCase {
  readonly name: string;
  run(harness: StoreHarness): Promise<void>;
}

export interface SetClock extends Clock {
  set(iso: string): void;
}

export function createSetClock(iso = "2026-03-01T12:00:00.000Z"): SetClock {
  let now = Date.parse(iso);
  return {
    now: () => now,
    set(next) {
      now = Date.parse(next);
    },
  };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export function assertFrozen(value: unknown, path = "result"): void {
  if (typeof value !== "object" || value === null) return;
  assert.ok(Object.isFrozen(value), `${path} is not frozen`);
  for (const [key, part] of Object.entries(value)) assertFrozen(part, `${path}.${key}`);
}

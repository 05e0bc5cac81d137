import { HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, rejectRolledBackStore } from "./adapters.ts";
import { HEARTBEAT_MS, type Lease } from "./lease.ts";
import { Stopped } from "./progress.ts";
import type { Saver } from "./save.ts";
import { applySignal } from "./signals.ts";
import type { RunBirth, SlotClaim, Store } from "./store.ts";

export interface AcquiredLease extends AsyncDisposable {
  readonly lease: Lease;
  /** Somebody else has the run: told at the latest by the next heartbeat, also while nothing is written. */
  onLost(tell: (error: HoldfastError) => void): void;
}

/**
 * LEASE_HELD and LOOP_LIMIT pass through. Disposing lets go of it; one that is lost is no error there. Whoever holds the run already shares the
 * lease with what it calls, and the last one lets go: so a place among those at work is kept from the first act to the last.
 */
export async function acquireLease(
  parts: CoreAdapters,
  run: string,
  slot?: SlotClaim,
  birth?: RunBirth,
): Promise<AcquiredLease> {
  // A run that is gone from a store that was rolled back would be done again under its own name.
  if (birth !== undefined) await rejectRolledBackStore(parts, run);
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

export interface SlotRequest {
  /** How many may be at work at once; null: as many as want to. */
  readonly limit: number | null;
  /** "refuse": LOOP_LIMIT. */
  readonly whenFull: "refuse" | "wait" | "force";
  readonly signal: AbortSignal;
  /** Of a run that is not there yet: made together with its place, so that one without a place leaves nothing behind. */
  readonly birth?: RunBirth;
  /** Told once, with the runs that are at work, when there is no place at first. */
  readonly onWaiting: (atWork: readonly string[]) => void;
  /** The same, when it works all the same. */
  readonly onOver: (atWork: readonly string[]) => void;
}

/**
 * The lease with a place among those at work. Whoever waits holds the run meanwhile: its place in the queue is seen by all, and is gone with
 * its process. Aborted: lets go, and rejects with the signal's reason.
 */
export async function holdSlot(parts: CoreAdapters, run: string, request: SlotRequest): Promise<AcquiredLease> {
  const { whenFull, signal } = request;
  signal.throwIfAborted();
  const wish = { limit: whenFull === "force" ? null : request.limit, wait: whenFull === "wait" };
  const held = await acquireLease(parts, run, wish, request.birth);
  let { lease } = held;
  try {
    if (lease.slot === "waiting") request.onWaiting(await atWork(parts, run));
    while (lease.slot === "waiting") {
      await pause(signal);
      await obeyWhileWaiting(parts, lease);
      lease = await parts.store.takeLease({ run, label: lease.owner.label, slot: wish });
    }
    const others = whenFull === "force" && request.limit !== null ? await atWork(parts, run) : [];
    if (request.limit !== null && others.length >= request.limit) request.onOver(others);
  } catch (error) {
    await held[Symbol.asyncDispose]();
    throw error;
  }
  return held;
}

async function atWork(parts: CoreAdapters, run: string): Promise<readonly string[]> {
  const leases = await parts.store.listLeases();
  return leases
    .filter((lease) => lease.run !== run && lease.slot === "working" && parts.liveness(lease.owner) !== "dead")
    .map((lease) => lease.run);
}

/** Throws Stopped when somebody said that it shall not go on. */
async function obeyWhileWaiting(parts: CoreAdapters, lease: Lease): Promise<void> {
  const run = await parts.store.getRun(lease.run);
  const outcome = run === undefined ? null : await applySignal(parts, lease, run);
  if (outcome?.kind === "parked" || outcome?.kind === "fatal") throw new Stopped(outcome, { saved: true });
}

const LOOK_MS = 250;

async function pause(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, LOOK_MS);
    signal.addEventListener("abort", end, { once: true });
  });
  signal.throwIfAborted();
}

const RETRY_MS = 50;

/** Holds a run's lease from the first write until it is released, and tells other hosts that we live. */
export class LeaseHolder {
  readonly #parts: CoreAdapters;
  readonly #run: string;
  #held: Lease | undefined;
  #taking: Promise<Lease> | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(parts: CoreAdapters, run: string) {
    this.#parts = parts;
    this.#run = run;
  }

  get held(): Lease | undefined {
    return this.#held;
  }

  /** Concurrent first writers share one taking. What the saver remembers may be older than the lease, so it forgets. */
  async take(saver: Saver): Promise<Lease> {
    this.#taking ??= this.#takePatiently().finally(() => {
      this.#taking = undefined;
    });
    const lease = await this.#taking;
    if (this.#held === undefined) {
      this.#held = lease;
      saver.forget();
      this.#timer = setInterval(() => this.#beat(), HEARTBEAT_MS);
      this.#timer.unref();
    }
    return lease;
  }

  async release(): Promise<void> {
    const lease = this.#held ?? (await this.#taking);
    this.#held = undefined;
    clearInterval(this.#timer);
    if (lease !== undefined) await this.#parts.store.releaseLease(lease);
  }

  /** Two terminals, or a hook beside a person: a save takes milliseconds, so waiting a little beats failing. */
  async #takePatiently(): Promise<Lease> {
    const until = performance.now() + this.#parts.leaseWaitMs;
    for (;;) {
      try {
        return await this.#parts.store.takeLease({ run: this.#run, label: `holdfast ${this.#run}` });
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD" || performance.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** A heartbeat need not shout: a lost lease shows itself at the next write, inside the transaction. */
  #beat(): void {
    if (this.#held !== undefined) this.#parts.store.renewLease(this.#held).catch(() => undefined);
  }
}

// Holding a run's lease in this process: heartbeat, slots for limited concurrency, and release.
import { HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, rejectRolledBackStore } from "./adapters.ts";
import { HEARTBEAT_MS, type Lease } from "./lease.ts";
import { Stopped } from "./progress.ts";
import type { Saver } from "./save.ts";
import { applySignal } from "./signals.ts";
import { type CreatedRun, type LeasedBirth, type SlotClaim, type Store, isStoreClosed } from "./store.ts";

export interface AcquiredLease extends AsyncDisposable {
  readonly lease: Lease;
  /** The run, if it was created with this lease and its first checkpoint. */
  readonly created: CreatedRun | undefined;
  /** Called when another process has taken the lease, at the latest after the next heartbeat, even if nothing is written. */
  onLost(report: (error: HoldfastError) => void): void;
  /**
   * Makes the last commit under this lease, which also releases it when `release` is true: no other caller of this process holds it.
   * Disposing does nothing then.
   */
  endWith<T>(commit: (release: boolean) => Promise<T>): Promise<T>;
  /** Like disposing, but an error of the release is thrown. */
  release(): Promise<void>;
}

/**
 * Acquires the lease; LEASE_HELD and LOOP_LIMIT pass through. Disposing releases it, and a lost lease is not an error
 * then. Callers in one process share the lease, and the last one releases it, so its slot is kept throughout.
 */
export async function acquireLease(
  adapters: CoreAdapters,
  run: string,
  slot?: SlotClaim,
  birth?: LeasedBirth,
): Promise<AcquiredLease> {
  // After a rollback of the store, a run that it no longer knows would be repeated under the same name.
  if (birth !== undefined) await rejectRolledBackStore(adapters, run);
  const given = { ...(slot === undefined ? {} : { slot }), ...(birth === undefined ? {} : { birth }) };
  return await shareLease(adapters.store, { run, label: `holdfast run ${run}`, ...given });
}

async function shareLease(store: Store, wish: Parameters<Store["takeLease"]>[0]): Promise<AcquiredLease> {
  const { run } = wish;
  const { holders } = sharedOf(store);
  const { created, ...lease } = await inTurn(store, run, async () => {
    const taken = await store.takeLease(wish);
    holders.set(keyOf(taken), (holders.get(keyOf(taken)) ?? 0) + 1);
    return taken;
  });
  const key = keyOf(lease);
  let reportLost: ((error: HoldfastError) => void) | undefined;
  const beat = (): void => {
    store.renewLease(lease).catch((error: unknown) => {
      // Other errors come from the disk or the network and may be temporary. Each write checks the lease itself.
      if (error instanceof HoldfastError && error.code === "LEASE_LOST") reportLost?.(error);
    });
  };
  const timer = setInterval(beat, HEARTBEAT_MS);
  timer.unref();
  let isHeld = true;
  const release = async (): Promise<void> => {
    clearInterval(timer);
    await inTurn(store, run, async () => {
      const count = holders.get(key);
      if (!isHeld || count === undefined) return;
      isHeld = false;
      if (count > 1) return void holders.set(key, count - 1);
      holders.delete(key);
      await store.releaseLease(lease);
    });
  };
  return {
    lease,
    created,
    onLost(report) {
      reportLost = report;
    },
    endWith: (commit) =>
      inTurn(store, run, async () => {
        const isLast = holders.get(key) === 1;
        const result = await commit(isLast);
        if (isLast) holders.delete(key);
        return result;
      }),
    release,
    // An error here would hide the original one. A lease that is not released ends with its store handle.
    [Symbol.asyncDispose]: () => release().catch(() => undefined),
  };
}

interface SharedLeases {
  /** Number of holders of each lease in this process, by run and epoch. */
  readonly holders: Map<string, number>;
  /** The last acquisition or release of each run's lease that is under way. */
  readonly turns: Map<string, Promise<unknown>>;
}

const shared = new WeakMap<Store, SharedLeases>();

function sharedOf(store: Store): SharedLeases {
  const known = shared.get(store) ?? { holders: new Map(), turns: new Map() };
  shared.set(store, known);
  return known;
}

function keyOf({ run, epoch }: Pick<Lease, "run" | "epoch">): string {
  return `${run} ${epoch}`;
}

/** A caller that finds the lease held by this process is counted before another one decides whether it is the last. */
async function inTurn<T>(store: Store, run: string, work: () => Promise<T>): Promise<T> {
  const { turns } = sharedOf(store);
  const done = (turns.get(run) ?? Promise.resolve()).then(work);
  const settled = done.then(
    () => undefined,
    () => undefined,
  );
  turns.set(run, settled);
  try {
    return await done;
  } finally {
    if (turns.get(run) === settled) turns.delete(run);
  }
}

export interface SlotRequest {
  /** Maximum number of runs that work at once. null: no limit. */
  readonly limit: number | null;
  /** "refuse": throw LOOP_LIMIT. "wait": queue. "force": ignore the limit. */
  readonly whenFull: "refuse" | "wait" | "force";
  readonly signal: AbortSignal;
  /** For a run that does not exist yet: it is created together with its slot, so that a refused run leaves nothing behind. */
  readonly birth?: LeasedBirth;
  /** Called once with the working runs when no slot is free at first. */
  readonly onWaiting: (atWork: readonly string[]) => void;
  /** Called with the working runs when the run starts above the limit ("force"). */
  readonly onOver: (atWork: readonly string[]) => void;
}

/**
 * Acquires the lease with a slot. A queued run holds its lease, so that its position in the queue is visible and ends with
 * its process. Aborting releases the lease and rejects with the signal's reason.
 */
export async function holdSlot(adapters: CoreAdapters, run: string, request: SlotRequest): Promise<AcquiredLease> {
  const { whenFull, signal } = request;
  signal.throwIfAborted();
  const wish = { limit: whenFull === "force" ? null : request.limit, wait: whenFull === "wait" };
  const held = await acquireLease(adapters, run, wish, request.birth);
  let { lease } = held;
  try {
    if (lease.slot === "waiting") request.onWaiting(await atWork(adapters, run));
    while (lease.slot === "waiting") {
      await pause(signal);
      await handleSignalWhileQueued(adapters, lease);
      lease = await adapters.store.takeLease({ run, label: lease.owner.label, slot: wish });
    }
    const others = whenFull === "force" && request.limit !== null ? await atWork(adapters, run) : [];
    if (request.limit !== null && others.length >= request.limit) request.onOver(others);
  } catch (error) {
    await held[Symbol.asyncDispose]();
    throw error;
  }
  return held;
}

async function atWork(adapters: CoreAdapters, run: string): Promise<readonly string[]> {
  const leases = await adapters.store.listLeases();
  return leases
    .filter((lease) => lease.run !== run && lease.slot === "working" && adapters.liveness(lease.owner) !== "dead")
    .map((lease) => lease.run);
}

/** Throws Stopped when a signal pauses or aborts the run while it is queued. */
async function handleSignalWhileQueued(adapters: CoreAdapters, lease: Lease): Promise<void> {
  const run = await adapters.store.getRun(lease.run);
  const outcome = run === undefined ? null : await applySignal(adapters, lease, run);
  if (outcome !== null) throw new Stopped(outcome, { saved: true });
}

const POLL_MS = 250;

async function pause(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, POLL_MS);
    signal.addEventListener("abort", end, { once: true });
  });
  signal.throwIfAborted();
}

const RETRY_MS = 50;

/** Holds a run's lease from the first write until release. */
export class LeaseHolder {
  readonly #adapters: CoreAdapters;
  readonly #run: string;
  #held: AcquiredLease | undefined;
  #taking: Promise<AcquiredLease> | undefined;

  constructor(adapters: CoreAdapters, run: string) {
    this.#adapters = adapters;
    this.#run = run;
  }

  get held(): Lease | undefined {
    return this.#held?.lease;
  }

  /** Concurrent first writers share one acquisition. The saver's cache may be older than the lease, so it is cleared. */
  async take(saver: Saver): Promise<Lease> {
    this.#taking ??= this.#takePatiently().finally(() => {
      this.#taking = undefined;
    });
    const taken = await this.#taking;
    if (this.#held === undefined) {
      this.#held = taken;
      saver.forget();
    }
    return taken.lease;
  }

  async release(): Promise<void> {
    const held = this.#held ?? (await this.#taking);
    this.#held = undefined;
    await held?.release().catch((error: unknown) => {
      // The store released its leases when it was closed.
      if (!isStoreClosed(error)) throw error;
    });
  }

  /** Another terminal or a hook may hold the lease for a save of a few milliseconds. A short wait avoids a needless failure. */
  async #takePatiently(): Promise<AcquiredLease> {
    const until = performance.now() + this.#adapters.leaseWaitMs;
    for (;;) {
      try {
        return await shareLease(this.#adapters.store, { run: this.#run, label: `holdfast ${this.#run}` });
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD" || performance.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}

import type { Lease } from "../core/lease.ts";
import { planSlot } from "../core/plan-slot.ts";
import { DEFAULT_STALE_AFTER_MS } from "../core/plan-lease.ts";
import { priorityKey, readPriority } from "../core/priority.ts";
import { loopLimit } from "../core/refusals.ts";
import { Stopped } from "./halt.ts";
import { obeyOrder } from "./obey-order.ts";
import type { Parts } from "./parts.ts";
import { holdLease } from "./hold-lease.ts";
import type { HeldLease } from "./hold-lease.ts";

export interface SlotRequest {
  /** How many may be at work at once; null: as many as want to. */
  readonly limit: number | null;
  /** "refuse": LOOP_LIMIT. */
  readonly whenFull: "refuse" | "wait" | "force";
  readonly signal: AbortSignal;
  /** Told once, with the runs that are at work, when there is no place at first. */
  readonly onWaiting: (atWork: readonly string[]) => void;
  /** The same, when it works all the same. */
  readonly onOver: (atWork: readonly string[]) => void;
}

/**
 * The lease with a place among those at work. Whoever waits holds the run meanwhile: its place in the queue is seen by all, and is gone with
 * its process. Aborted: lets go, and rejects with the signal's reason.
 */
export async function holdSlot(parts: Parts, run: string, request: SlotRequest): Promise<HeldLease> {
  const { whenFull, signal } = request;
  signal.throwIfAborted();
  const wish = { limit: whenFull === "force" ? null : request.limit, wait: whenFull === "wait" };
  const held = await holdLease(parts, run, wish);
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

async function atWork(parts: Parts, run: string): Promise<readonly string[]> {
  const leases = await parts.store.listLeases();
  return leases
    .filter((lease) => lease.run !== run && lease.slot === "working" && parts.liveness(lease.owner) !== "dead")
    .map((lease) => lease.run);
}

/** LOOP_LIMIT when there is no place at this moment: a look before anything is made. Who gets one is decided by `holdSlot`. */
export async function checkSlot(parts: Parts, run: string, limit: number | null): Promise<void> {
  const { store, clock } = parts;
  const priorityOf = async (id: string): Promise<number> => readPriority(await store.getMeta(priorityKey(id)));
  const others = await Promise.all(
    (await store.listLeases()).map(async (lease) => ({
      lease,
      liveness: parts.liveness(lease.owner),
      priority: await priorityOf(lease.run),
    })),
  );
  const now = clock.now();
  const since = new Date(now).toISOString();
  const priority = await priorityOf(run);
  const slot = planSlot({ limit, run, priority, since, others, now, staleAfterMs: DEFAULT_STALE_AFTER_MS });
  if (slot.kind === "full") throw loopLimit({ run, limit, working: slot.working, ahead: slot.ahead });
}

/** Throws Stopped when somebody said that it shall not go on. */
async function obeyWhileWaiting(parts: Parts, lease: Lease): Promise<void> {
  const run = await parts.store.getRun(lease.run);
  const outcome = run === undefined ? null : await obeyOrder(parts, lease, run);
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

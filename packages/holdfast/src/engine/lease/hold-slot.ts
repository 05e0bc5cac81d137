import type { Lease } from "../../core/lease/lease.ts";
import type { RunBirth } from "../../ports/store.ts";
import { Stopped } from "../halt.ts";
import { obeyOrder } from "../orders/obey-order.ts";
import type { Parts } from "../parts.ts";
import { holdLease } from "./hold-lease.ts";
import type { HeldLease } from "./hold-lease.ts";

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
export async function holdSlot(parts: Parts, run: string, request: SlotRequest): Promise<HeldLease> {
  const { whenFull, signal } = request;
  signal.throwIfAborted();
  const wish = { limit: whenFull === "force" ? null : request.limit, wait: whenFull === "wait" };
  const held = await holdLease(parts, run, wish, request.birth);
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

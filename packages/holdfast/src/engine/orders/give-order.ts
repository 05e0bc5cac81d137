import { HoldfastError } from "../../core/error.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Order } from "../../ports/requests.ts";
import { holdLease } from "../lease/hold-lease.ts";
import { obeyOrder } from "./obey-order.ts";
import { runMark } from "../save/run-mark.ts";
import type { WorkParts } from "../work-parts.ts";
import { knownRun } from "../known-run.ts";

export interface OrderParams {
  readonly parts: WorkParts;
  readonly order: Omit<Order, "id" | "at">;
  /** Aborted: waiting ends. What was ordered stands. */
  readonly signal: AbortSignal;
  /** Told once, when whoever carries the run has to come to a safe point first. */
  readonly onWaiting?: (by: Lease) => void;
}

export type Ordered =
  /** On record, and nobody is at it any more. */
  | { readonly kind: "done"; readonly run: RunSummary }
  /** It had come to an end of its own. */
  | { readonly kind: "ended"; readonly run: RunSummary }
  /** It waits for something, and will not go on when it has it. */
  | { readonly kind: "standing"; readonly run: RunSummary }
  /** Somebody took it back before it was done. */
  | { readonly kind: "taken_back"; readonly run: RunSummary }
  /** Whoever holds it cannot be seen from here; it will read the order if it uses this store. */
  | { readonly kind: "elsewhere"; readonly by: Lease };

/**
 * Says what shall become of a run, and sees to it. The order is durable before anything else happens, so it is done by whoever carries the run, by
 * us where nobody does, or by the next who takes it up, whichever of these is killed.
 */
export async function giveOrder(params: OrderParams): Promise<Ordered> {
  const { parts, signal } = params;
  const { requests, store, clock } = parts;
  const { run } = params.order;
  const before = await knownRun(parts.store, run);
  if (hasEnded(before)) return { kind: "ended", run: before };
  if (requests === null) throw noPlace();
  const id = `${parts.random()}-${parts.random()}`.toLowerCase();
  const order: Order = { ...params.order, id, at: new Date(clock.now()).toISOString() };
  await requests.order(order);
  let asked: Lease | undefined;
  for (;;) {
    const summary = await knownRun(parts.store, run);
    const lease = await store.getLease(run);
    const alive = lease === undefined ? "dead" : parts.liveness(lease.owner);
    const stands = (await requests.orderFor(run))?.id === id;
    if (hasEnded(summary)) {
      await requests.settle(order);
      return { kind: isDone(order, summary) ? "done" : "ended", run: summary };
    }
    if (lease === undefined || alive === "dead") {
      if (!stands) return { kind: "done", run: summary };
      const outcome = await doIt(params);
      if (outcome !== null) return outcome;
    } else if (alive === "unknown") return { kind: "elsewhere", by: lease };
    else if (stands && asked === undefined) params.onWaiting?.((asked = lease));
    else if (!stands) {
      // It is written down before the order is settled; what is seen now has been done, and perhaps resumed, or never was.
      const run = await knownRun(parts.store, order.run);
      if (lease.epoch !== asked?.epoch) return { kind: "done", run };
      if (run.state.kind === "open") return { kind: "taken_back", run };
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    signal.throwIfAborted();
  }
}

const LOOK_MS = 50;

/** Nobody carries it. null: somebody has taken it up at this moment. */
async function doIt({ parts, order }: OrderParams): Promise<Ordered | null> {
  try {
    await using lease = await holdLease(parts, order.run);
    // What a killed process left running would go on changing files.
    await parts.commands.endMarked(runMark(parts, order.run));
    const outcome = await obeyOrder(parts, lease.lease, await knownRun(parts.store, order.run));
    const run = await knownRun(parts.store, order.run);
    if (hasEnded(run) && !isDone(order, run)) return { kind: "ended", run };
    const stands = outcome !== null && (await parts.requests?.orderFor(order.run)) !== null;
    return { kind: stands ? "standing" : "done", run };
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "LEASE_HELD") return null;
    throw error;
  }
}

function hasEnded({ state }: RunSummary): boolean {
  return state.kind === "done" || state.kind === "fatal";
}

function isDone(order: Pick<Order, "kind">, { state }: RunSummary): boolean {
  return order.kind === "abort" && state.kind === "fatal" && state.cause === "aborted";
}

function noPlace(): HoldfastError {
  return new HoldfastError({
    code: "UNSUPPORTED",
    message: "This store has no place for orders to runs",
    hint: "Stop the run in its own terminal.",
  });
}

import type { Order } from "../../ports/requests.ts";
import { Stopped } from "../halt.ts";
import { reasonOf } from "../reason-of.ts";
import type { RunOutcome } from "../outcome.ts";
import type { RunSession } from "../conduct/run-session.ts";

export interface Orders extends AsyncDisposable {
  /** What stopped the work is on record: the order that asked for it is done. */
  settled(cause: Stopped): Promise<void>;
}

/** While this process carries the run, it does what others say shall become of it. */
export function followOrders(writer: RunSession): Orders {
  const { requests } = writer.parts;
  if (requests === null) return { settled: NOTHING, [Symbol.asyncDispose]: NOTHING };
  const followed = new Map<Error, Order>();
  let last = "";
  let troubled = false;
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const order = await requests.orderFor(writer.run.id);
    if ((order?.id ?? "") === last) return;
    last = order?.id ?? "";
    writer.halt.unwish();
    if (order === null) return;
    const stopped = new Stopped(outcomeOf(order), { saved: false });
    followed.set(stopped, order);
    if (order.now) writer.halt.stop(stopped);
    else {
      writer.tell({ kind: "note", text: `${order.by} asks for a ${order.kind}: at the next safe point` });
      writer.halt.wish(stopped);
    }
  };
  const timer = setInterval(() => {
    looking ??= look()
      .catch((error: unknown) => {
        if (!troubled) writer.tell({ kind: "note", text: `Orders cannot be read: ${reasonOf(error)}` });
        troubled = true;
      })
      .finally(() => {
        looking = undefined;
      });
  }, LOOK_MS);
  timer.unref();
  return {
    async settled(cause) {
      const order = followed.get(cause);
      if (order !== undefined) await requests.settle(order).catch(() => undefined);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await looking;
    },
  };
}

const LOOK_MS = 200;
const NOTHING = (): Promise<void> => Promise.resolve();

export function outcomeOf(order: Order): Extract<RunOutcome, { readonly kind: "parked" | "fatal" }> {
  const said = order.reason === "" ? "" : `: ${order.reason}`;
  return order.kind === "abort"
    ? { kind: "fatal", reason: `aborted by ${order.by}${said}` }
    : { kind: "parked", on: "pause", reason: `paused by ${order.by}${said}`, until: null };
}

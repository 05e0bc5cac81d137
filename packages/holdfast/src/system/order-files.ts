import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Order, Requests } from "../ports/requests.ts";
import { asRecord } from "../core/record.ts";
import { makeDurableDirectory, syncDirectory, writeDurable } from "./durable-file.ts";

/** Orders as files in the store's own directory: `orders/<run>/<kind>.json`. They outlive the process that they are for. */
export function createOrderFiles(store: string): Pick<Requests, "order" | "orderFor" | "settle"> {
  const directoryOf = (run: string): string => join(store, "orders", run);
  const placeOf = (run: string, kind: Order["kind"]): string => join(directoryOf(run), `${kind}.json`);
  const read = async (run: string, kind: Order["kind"]): Promise<Order | null> => {
    try {
      return parse(await readFile(placeOf(run, kind), "utf8"), { run, kind });
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
      throw error;
    }
  };
  return {
    order(order) {
      makeDurableDirectory(directoryOf(order.run));
      writeDurable({ path: placeOf(order.run, order.kind), data: Buffer.from(JSON.stringify(order)), mode: "replace" });
      return Promise.resolve();
    },
    orderFor: async (run) => (await read(run, "abort")) ?? (await read(run, "pause")),
    async settle(order) {
      if ((await read(order.run, order.kind))?.id !== order.id) return;
      await rm(placeOf(order.run, order.kind), { force: true });
      syncDirectory(directoryOf(order.run));
    },
  };
}

/** The writer writes it whole or not at all. Damaged, it says at least of which kind it was: stopping is the safe reading. */
function parse(text: string, { run, kind }: Pick<Order, "run" | "kind">): Order {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = {};
  }
  const { id, by, at, reason, now } = asRecord(value);
  return {
    id: typeof id === "string" ? id : "unreadable",
    run,
    kind,
    by: typeof by === "string" ? by : "somebody",
    at: typeof at === "string" && Number.isFinite(Date.parse(at)) ? at : new Date(0).toISOString(),
    reason: typeof reason === "string" ? reason : "the order cannot be read any more",
    now: now === true,
  };
}

import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Order } from "../ports/requests.ts";
import { createOrderFiles } from "./order-files.ts";

function scene() {
  const store = mkdtempSync(join(tmpdir(), "orders-"));
  onTestFinished(() => rmSync(store, { recursive: true }));
  return { orders: createOrderFiles(store), place: (kind: string) => join(store, "orders/r1", `${kind}.json`) };
}
const order = (id: string, kind: Order["kind"]): Order => ({
  id,
  run: "r1",
  kind,
  by: "eva",
  at: "2026-11-15T12:00:00.000Z",
  reason: "why",
  now: kind === "abort",
});

test("an order stands until it is settled, and an abort comes before a pause", async () => {
  const { orders, place } = scene();
  expect(await orders.orderFor("r1")).toBeNull();
  await orders.order(order("a", "pause"));
  expect(await orders.orderFor("r1")).toEqual(order("a", "pause"));
  expect(await orders.orderFor("r2")).toBeNull();
  expect(statSync(place("pause")).mode & 0o777).toBe(0o600);
  await orders.order(order("b", "abort"));
  expect(await orders.orderFor("r1")).toEqual(order("b", "abort"));
  await orders.settle(order("b", "abort"));
  await orders.order(order("c", "pause"));
  // The one that took its place stands.
  await orders.settle(order("a", "pause"));
  expect(await orders.orderFor("r1")).toEqual(order("c", "pause"));
  await orders.settle(order("c", "pause"));
  await orders.settle(order("c", "pause"));
  expect(await orders.orderFor("r1")).toBeNull();
});

test("one that cannot be read any more still stops, and can be settled", async () => {
  const { orders, place } = scene();
  await orders.order(order("a", "abort"));
  writeFileSync(place("abort"), "{");
  const found = await orders.orderFor("r1");
  expect(found).toMatchObject({ kind: "abort", run: "r1", reason: "the order cannot be read any more" });
  if (found !== null) await orders.settle(found);
  expect(await orders.orderFor("r1")).toBeNull();
});

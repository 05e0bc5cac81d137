import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { createInterrupts } from "./interrupts.ts";

test("the first signal stops the waiting, the second leaves at once", async () => {
  const source = new EventEmitter();
  const left: number[] = [];
  const interrupts = createInterrupts(source, (status) => left.push(status));
  const work = interrupts.race(new Promise(() => {}));
  source.emit("SIGINT");
  await expect(work).rejects.toMatchObject({ code: "INTERRUPTED" });
  expect([interrupts.exit(), interrupts.signal.aborted, left]).toEqual(["interrupted", true, []]);
  source.emit("SIGINT");
  expect(left).toEqual([130]);
  interrupts.stop();
  expect(source.eventNames()).toEqual([]);
});

test("SIGTERM has its own status; work that is done stays done", async () => {
  const source = new EventEmitter();
  const interrupts = createInterrupts(source, () => {});
  expect(await interrupts.race(Promise.resolve("done"))).toBe("done");
  expect(interrupts.exit()).toBeUndefined();
  source.emit("SIGTERM");
  expect(interrupts.exit()).toBe("terminated");
});

test("work that ends because of the signal was interrupted too; so is what begins after it", async () => {
  const source = new EventEmitter();
  const interrupts = createInterrupts(source, () => {});
  const watching = new Promise<string>((resolve) => {
    interrupts.signal.addEventListener("abort", () => resolve("done"), { once: true });
  });
  const raced = interrupts.race(watching);
  source.emit("SIGINT");
  await expect(raced).rejects.toMatchObject({ code: "INTERRUPTED" });
  await expect(interrupts.race(new Promise(() => {}))).rejects.toMatchObject({ code: "INTERRUPTED" });
});

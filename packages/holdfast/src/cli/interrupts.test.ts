import { EventEmitter } from "node:events";
import { describe, expect, test } from "vitest";
import { createInterrupts, createPendingWork } from "./interrupts.ts";

describe("interrupts", () => {
  test("the first signal stops the waiting, the second exits immediately", async () => {
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

  test("SIGTERM has its own status; finished work stays finished", async () => {
    const source = new EventEmitter();
    const interrupts = createInterrupts(source, () => {});
    expect(await interrupts.race(Promise.resolve("done"))).toBe("done");
    expect(interrupts.exit()).toBeUndefined();
    source.emit("SIGTERM");
    expect(interrupts.exit()).toBe("terminated");
  });

  test("work that ends because of the signal was interrupted too, and so is work that starts after it", async () => {
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
});

describe("unfinished work", () => {
  test("lists finished and failed work, in order", async () => {
    const work = createPendingWork();
    const first = work.add(Promise.resolve(3), { done: (value) => `r@${value} was saved` });
    work.add(Promise.reject(new Error("no")), { done: () => "never" }).catch(() => {});
    work
      .add(Promise.reject(new Error("half")), { done: () => "never", failed: async () => "a restore did not finish" })
      .catch(() => {});
    expect(await first).toBe(3);
    expect(await work.settle()).toEqual({
      done: ["r@3 was saved", "a restore did not finish"],
      failures: [new Error("no"), new Error("half")],
    });
  });
});

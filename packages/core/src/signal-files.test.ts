import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type CheckpointRequest, type Signal, createSignalFiles, openSignalFiles } from "./signal-files.ts";

describe("request files", () => {
  function scene() {
    const store = mkdtempSync(join(tmpdir(), "requests-"));
    onTestFinished(() => rmSync(store, { recursive: true }));
    return { requests: openSignalFiles(store), directory: join(store, "requests/r1") };
  }
  const request = (id: string, epoch = 3): CheckpointRequest => ({ id, run: "r1", epoch, name: `name of ${id}` });

  test("what is asked can be seen whole, by its owner alone", async () => {
    const { requests, directory } = scene();
    expect(await requests.waiting("r1")).toEqual([]);
    await requests.ask(request("a"));
    await requests.ask({ ...request("b"), name: null });
    expect(await requests.waiting("r1")).toEqual([request("a"), { ...request("b"), name: null }]);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(join(directory, "a.json")).mode & 0o777).toBe(0o600);
    await expect(requests.ask(request("../a"))).rejects.toThrow(/cannot name a request/);
  });

  test("it is taken once, and then it cannot be withdrawn; withdrawn, it cannot be taken", async () => {
    const { requests, directory } = scene();
    await requests.ask(request("a"));
    expect(await requests.stateOf(request("a"))).toBe("waiting");
    expect(await requests.take(request("a"))).toBe(true);
    expect([await requests.take(request("a")), await requests.withdraw(request("a"))]).toEqual([false, false]);
    expect(await requests.stateOf(request("a"))).toBe("taken");
    expect(await requests.waiting("r1")).toEqual([]);
    await requests.finish(request("a"));
    await requests.finish(request("a"));
    expect(await requests.stateOf(request("a"))).toBe("gone");
    await requests.ask(request("b"));
    expect([await requests.withdraw(request("b")), await requests.take(request("b"))]).toEqual([true, false]);
    expect(readdirSync(directory)).toEqual([]);
  });

  test("what nobody can read is removed; what was asked of another holder is swept, also what it had taken", async () => {
    const { requests, directory } = scene();
    for (const [id, epoch] of [
      ["old", 2],
      ["taken", 2],
      ["now", 3],
    ] as const)
      await requests.ask(request(id, epoch));
    await requests.take(request("taken", 2));
    for (const [name, text] of [
      ["torn.json", '{"id":"torn"'],
      ["odd.json", "[]"],
      ["else.json", JSON.stringify(request("a"))],
    ] as const)
      writeFileSync(join(directory, name), text);
    expect((await requests.waiting("r1")).map(({ id }) => id).toSorted()).toEqual(["now", "old"]);
    mkdirSync(join(directory, "folder.json/in"), { recursive: true });
    symlinkSync("/dev/zero", join(directory, "endless.json"));
    writeFileSync(join(directory, "huge.json"), " ".repeat(100_000));
    // A process that opened the pipe for reading would wait forever.
    execFileSync("mkfifo", [join(directory, "pipe.json")]);
    expect((await requests.waiting("r1")).map(({ id }) => id).toSorted()).toEqual(["now", "old"]);
    for (const name of ["late.json.new", "fresh.json.new"]) writeFileSync(join(directory, name), "{");
    utimesSync(join(directory, "late.json.new"), 1, 1);
    await requests.sweep({ run: "r1", epoch: 3 });
    expect(readdirSync(directory).toSorted()).toEqual(["fresh.json.new", "now.json"]);
  });
});

describe("order files", () => {
  function scene() {
    const store = mkdtempSync(join(tmpdir(), "orders-"));
    onTestFinished(() => rmSync(store, { recursive: true }));
    return { orders: createSignalFiles(store), place: (kind: string) => join(store, "orders/r1", `${kind}.json`) };
  }
  const order = (id: string, kind: Signal["kind"]): Signal => ({
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
    // The signal that replaced it remains.
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
});

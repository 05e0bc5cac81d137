import { execFileSync } from "node:child_process";
import { type Socket, createServer } from "node:net";
import { join } from "node:path";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, test, vi } from "vitest";
import { openHoldfast } from "../open.ts";
import { EVERY_RUN, FIRST_MS, Repositories, readRuns } from "./repositories.ts";

const named = { id: "a", store: "/shop/.git/holdfast", root: "/shop", usedAt: "", key: "shop", name: "shop" };
const READ = { read: true };

test("a list does not wait long for one store, and not again until it is read", async () => {
  vi.useFakeTimers({ now: 1_000_000 });
  try {
    await using repositories = new Repositories({ list: () => [], now: () => Date.now(), waits: false });
    const onRead = vi.fn();
    repositories.onRead = onRead;
    const slow = Promise.withResolvers<typeof READ>();
    const first = repositories.inTime(named, () => slow.promise);
    await vi.advanceTimersByTimeAsync(3000);
    expect(await first).toBeNull();
    expect(await repositories.inTime(named, async () => READ)).toBeNull();
    // Another store is not affected.
    expect(await repositories.inTime({ ...named, store: "/other" }, async () => READ)).toBe(READ);
    expect(onRead).not.toHaveBeenCalled();
    slow.resolve(READ);
    await vi.advanceTimersByTimeAsync(1);
    expect(onRead).toHaveBeenCalledTimes(1);
    expect(await repositories.inTime(named, async () => READ)).toBe(READ);
    // A store that is always slow makes no page ask all the time.
    const again = repositories.inTime(named, async () => {
      await new Promise((resolve) => setTimeout(resolve, 3100));
      return READ;
    });
    await vi.advanceTimersByTimeAsync(3200);
    expect(await again).toBeNull();
    expect(onRead).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(2000);
    expect(onRead).toHaveBeenCalledTimes(2);
    // The clock is set back by most of its time.
    vi.setSystemTime(1000);
    const late = repositories.inTime(named, async () => {
      await new Promise((resolve) => setTimeout(resolve, 3100));
      return READ;
    });
    await vi.advanceTimersByTimeAsync(3200);
    expect(await late).toBeNull();
    await vi.advanceTimersByTimeAsync(5000);
    expect(onRead).toHaveBeenCalledTimes(3);
  } finally {
    vi.useRealTimers();
  }
});

test("a command waits for every store", async () => {
  await using repositories = new Repositories({ list: () => [], now: () => 0, waits: true });
  const read = async (): Promise<typeof READ> => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return READ;
  };
  expect(await repositories.inTime(named, read)).toBe(READ);
});

test("a store is closed a minute after its last use, without another request", async ({ onTestFinished }) => {
  const root = scratchDirectory(onTestFinished);
  execFileSync("git", ["init", "-q", root]);
  const store = join(root, ".git/holdfast");
  await (await openHoldfast({ cwd: root, store })).close();
  let now = 0;
  await using repositories = new Repositories({ list: () => [], now: () => now, waits: false });
  const { holdfast } = await repositories.openNamed({ ...named, store, root });
  now = 60_000;
  repositories.closeUnused();
  expect(await holdfast.listRuns()).toEqual([]);
  now = 60_001;
  repositories.closeUnused();
  await expect(holdfast.listRuns()).rejects.toThrow(/closed/);
});

test("stores that do not answer are read at the same time", async ({ onTestFinished }) => {
  const sockets: Socket[] = [];
  const all = Promise.withResolvers<void>();
  const silent = createServer((socket) => {
    socket.on("error", () => undefined);
    if (sockets.push(socket) === keys.length) all.resolve();
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void silent.close());
  const address = silent.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const keys = ["one", "two", "three"];
  const root = scratchDirectory(onTestFinished);
  execFileSync("git", ["init", "-q", root]);
  const list = keys.map((key) => ({ ...named, store: `postgres://u@127.0.0.1:${port}/${key}`, key, name: key, root }));
  // The time that a store is given does not pass, so none waits for the end of another.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  await using repositories = new Repositories({ list: () => list, now: () => Date.now(), waits: false });
  const reading = readRuns(repositories, EVERY_RUN);
  await Promise.race([all.promise, reading]);
  expect(sockets).toHaveLength(keys.length);
  await vi.advanceTimersByTimeAsync(FIRST_MS);
  const { problems } = await reading;
  expect(problems.map(({ repository, problem: { code } }) => `${repository} ${code}`)).toEqual(
    keys.map((key) => `${key} STORE_BUSY`),
  );
  for (const socket of sockets) socket.destroy();
}, 60_000);

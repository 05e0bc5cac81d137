import { AsyncLocalStorage } from "node:async_hooks";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { Dispatch } from "@holdfast/core/dispatch";
import type { Driver } from "@holdfast/core/store-sql/driver";
import { SQLITE } from "@holdfast/core/store-sql/schema";
import { connect, createWritingDriver } from "@holdfast/core/store-sql/sqlite-driver";
import { layoutOf } from "@holdfast/core/store-sql/sqlite-files";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type Delivery, createDispatch } from "./table-dispatch.ts";
import { type Turn, ensureTables } from "./tables.ts";

/* Two processes, as far as the dispatch can tell, at the worst moments. */

const WORKER = { labels: [], slots: 1, version: "1" };
const job = (run: string) => ({ run, queue: "q", repository: "r", priority: 0, needs: [] });

interface Opened {
  readonly dispatch: Dispatch;
  readonly delivered: Turn[];
  execute(turn: string): void;
}

async function open(
  directory: string,
  change: (driver: Driver) => Driver = (driver) => driver,
  timings: object = {},
  fails: () => boolean = () => false,
): Promise<Opened> {
  const layout = layoutOf(directory);
  const driver = createWritingDriver({ layout, writer: connect(layout.database, "write"), busyMs: 60_000 });
  await ensureTables(driver, SQLITE);
  const delivered: Turn[] = [];
  let execute: (turn: string) => Promise<void> = async () => {};
  const delivery: Delivery = {
    async start(given) {
      execute = given;
      return `address-${Math.random()}`;
    },
    async deliver(turn) {
      if (fails()) throw new Error("no such table");
      delivered.push(turn);
    },
    tidy: async () => {},
    stop: async () => {},
  };
  const dispatch = createDispatch(change(driver), delivery, {
    timings: { lookMs: 5, heartbeatMs: 0, deadMs: 600_000, ...timings },
  });
  onTestFinished(() => dispatch.close());
  return { dispatch, delivered, execute: (turn) => void execute(turn) };
}

async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await check())) await new Promise((resolve) => setTimeout(resolve, 5));
}

function succeeds(work: () => void): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

/** A promise that the test keeps. */
function createHold(): { readonly held: Promise<void>; release(): void } {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  return { held, release: () => release() };
}

test("work is not aborted that began after a look has read the turns", async () => {
  const directory = scratchDirectory(onTestFinished);
  const hold = createHold();
  let [isArmed, isHeld] = [false, false];
  const slow = await open(
    directory,
    (driver) => ({
      ...driver,
      async read(work) {
        const result = await driver.read(work);
        if (isArmed) {
          [isArmed, isHeld] = [false, true];
          await hold.held;
        }
        return result;
      },
    }),
    { heartbeatMs: 600_000 },
  );
  const signals: AbortSignal[] = [];
  await slow.dispatch.join(WORKER, async (_, signal) => {
    signals.push(signal);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return { kind: "ended" };
  });
  const quick = await open(directory);
  await quick.dispatch.join({ ...WORKER, slots: 0 }, async () => ({ kind: "ended" }));
  isArmed = true;
  await until(() => isHeld);
  await quick.dispatch.submit(job("a"));
  await until(() => quick.delivered.length === 1);
  slow.execute(quick.delivered[0]?.turn ?? "");
  await until(() => signals.length === 1);
  hold.release();
  await until(() => slow.delivered.length === 1 || signals[0]?.aborted === true);
  expect(signals[0]?.aborted).toBe(false);
  await quick.dispatch.cancel("a");
  await until(() => signals[0]?.aborted === true);
});

test("a look during the end of a membership does not bring the worker back", async () => {
  const directory = scratchDirectory(onTestFinished);
  const other = await open(directory);
  const leaving = new AsyncLocalStorage<boolean>();
  const hold = createHold();
  let [isGone, looks] = [false, 0];
  const { dispatch } = await open(directory, (driver) => ({
    ...driver,
    async write(claims, work, examine) {
      const result = await driver.write(claims, work, examine);
      isGone ||= leaving.getStore() === true && (await other.dispatch.workers()).length === 1;
      // The caller does not know yet that the worker is removed.
      if (isGone && leaving.getStore() === true) await hold.held;
      return result;
    },
    read(work) {
      looks += isGone ? 1 : 0;
      if (looks > 3) hold.release();
      return driver.read(work);
    },
  }));
  const staying = await dispatch.join(WORKER, async () => ({ kind: "ended" }));
  const membership = await dispatch.join(WORKER, async () => ({ kind: "ended" }));
  await leaving.run(true, () => membership.drain());
  expect((await other.dispatch.workers()).map(({ id }) => id)).toEqual([staying.id]);
});

test("a worker that leaves while the tables are lost reports that, and does not wait for them", async () => {
  const directory = scratchDirectory(onTestFinished);
  const { dispatch, delivered, execute } = await open(directory, undefined, { deadMs: 100 });
  const hold = createHold();
  let isWorking = false;
  const membership = await dispatch.join(WORKER, async () => {
    isWorking = true;
    await hold.held;
    return { kind: "ended" };
  });
  await dispatch.submit(job("a"));
  await until(() => delivered.length === 1);
  execute(delivered[0]?.turn ?? "");
  await until(() => isWorking);
  const drained = membership.drain();
  await until(async () => (await dispatch.workers())[0]?.draining === true);
  // The dispatch is in a transaction of its own most of the time.
  using database = new DatabaseSync(layoutOf(directory).database, { timeout: 0 });
  await until(() => succeeds(() => database.exec("BEGIN IMMEDIATE; DROP TABLE entries; DROP TABLE workers; COMMIT")));
  hold.release();
  await expect(drained).rejects.toThrow("no such table");
});

test("a worker whose delivery fails again and again learns it, and gives its entries back when it leaves", async () => {
  const directory = scratchDirectory(onTestFinished);
  const broken = await open(directory, undefined, undefined, () => true);
  const membership = await broken.dispatch.join(WORKER, async () => ({ kind: "ended" }));
  await broken.dispatch.submit(job("a"));
  expect(await membership.failed).toMatchObject({
    code: "IO_FAILED",
    message: expect.stringContaining("no such table") as string,
    hint: expect.stringContaining("Start the worker again") as string,
  });
  expect(await broken.dispatch.list()).toMatchObject([{ run: "a", state: "active" }]);
  await membership.drain();
  expect(await broken.dispatch.list()).toMatchObject([{ run: "a", state: "waiting", wakeAt: 0, worker: null }]);
  const well = await open(directory);
  await well.dispatch.join(WORKER, async () => ({ kind: "ended" }));
  await until(() => well.delivered.length === 1);
});

test("a delivery that fails for a while is repeated", async () => {
  let left = 9;
  const { dispatch, delivered, execute } = await open(scratchDirectory(onTestFinished), undefined, undefined, () => {
    left -= 1;
    return left >= 0;
  });
  let hasFailed = false;
  const membership = await dispatch.join(WORKER, async () => ({ kind: "ended" }));
  void membership.failed.then(() => (hasFailed = true));
  for (const run of ["a", "b"]) {
    await dispatch.submit(job(run));
    await until(() => delivered.length === 1);
    execute(delivered.pop()?.turn ?? "");
    await until(async () => (await dispatch.list()).length === 0);
    // The next failures are not added to these.
    left = 9;
  }
  expect(hasFailed).toBe(false);
});

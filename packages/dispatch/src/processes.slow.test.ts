import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Dispatch, Entry, Job } from "@holdfast/core/dispatch";
import { type Child, startChild } from "@holdfast/test-support/child-process";
import { TEST_DISPATCHES, openTestDispatch } from "@holdfast/test-support/test-dispatches";

/* Workers in processes of their own, killed and frozen. A machine under load may make a living worker look dead: no case depends on that. */

const WORKER = join(import.meta.dirname, "../../test-support/src/store-processes/dispatch-worker.ts");
const FAR = Date.UTC(2100, 0, 1);

function start(args: readonly string[]): Child {
  return startChild([WORKER, ...args], onTestFinished);
}

const job = (run: string, more: Partial<Job> = {}): Job => ({
  run,
  queue: "q",
  repository: "r",
  priority: 0,
  needs: [],
  ...more,
});

async function until(check: () => Promise<boolean>): Promise<void> {
  while (!(await check())) await sleep(20);
}

describe.each(TEST_DISPATCHES)("workers of a dispatch on $name in processes of their own", (where) => {
  beforeEach(({ skip }) => skip(where.missing !== null, where.missing ?? ""));

  async function fresh(): Promise<{ readonly place: string; readonly dispatch: Dispatch }> {
    const place = await where.location(onTestFinished);
    const dispatch = await openTestDispatch(place, {});
    onTestFinished(() => dispatch.close());
    return { place, dispatch };
  }

  const entryOf = async (dispatch: Dispatch, run: string): Promise<Entry | undefined> =>
    (await dispatch.list()).find((entry) => entry.run === run);

  test("the entry of a killed worker goes to another one", async () => {
    const { place, dispatch } = await fresh();
    const first = start([place, "ended", "x"]);
    await first.until(/^joined/);
    await dispatch.submit(job("held-1", { needs: ["x"] }));
    await dispatch.submit(job("held-2"), FAR);
    await first.until(/^started held-1/);
    first.send("SIGKILL");
    await first.ended;
    const second = start([place, "ended", "x,y"]);
    await second.until(/^started held-1/);
    expect((await dispatch.list()).map(({ state }) => state)).toEqual(["active", "waiting"]);
    second.write("go");
    await until(async () => (await dispatch.list()).length === 1);
    expect((await dispatch.workers()).map(({ labels }) => labels)).toEqual([["x", "y"]]);
  });

  test("the late result of a worker that was frozen is ignored, and it works on", async () => {
    const { place, dispatch } = await fresh();
    const frozen = start([place, "ended", "x"]);
    await frozen.until(/^joined/);
    await dispatch.submit(job("held", { needs: ["x"] }));
    await frozen.until(/^started held/);
    frozen.send("SIGSTOP");
    const other = start([place, "far", "x,y"]);
    await other.until(/^started held/);
    other.write("go");
    await until(async () => (await entryOf(dispatch, "held"))?.wakeAt === FAR);
    // Its work ends by itself as soon as it runs again, before it can know that the entry is lost.
    frozen.write("go");
    frozen.send("SIGCONT");
    await frozen.until(/^returned held/);
    other.send("SIGTERM");
    await other.until(/^left/);
    await dispatch.submit(job("next", { needs: ["x"] }));
    await frozen.until(/^returned next/);
    frozen.send("SIGTERM");
    await frozen.until(/^left/);
    expect(await entryOf(dispatch, "held")).toMatchObject({ state: "waiting", wakeAt: FAR });
    expect(await dispatch.workers()).toEqual([]);
  });

  test("SIGTERM to a worker that drains: its work returns, the rest is for others", async () => {
    const { place, dispatch } = await fresh();
    const first = start([place, "ended", "x"]);
    await first.until(/^joined/);
    await dispatch.submit(job("held", { needs: ["x"] }));
    await first.until(/^started held/);
    first.send("SIGTERM");
    await until(async () => (await dispatch.workers())[0]?.draining === true);
    await dispatch.submit(job("next", { needs: ["x"] }));
    first.write("go");
    await first.until(/^left/);
    await first.ended;
    expect(first.lines.filter((line) => line.startsWith("started"))).toHaveLength(1);
    expect((await dispatch.list()).map(({ run, state }) => `${run} ${state}`)).toEqual(["next waiting"]);
  });

  test("workers that are killed again and again execute every run", async () => {
    const { place, dispatch } = await fresh();
    const runs = Array.from({ length: 30 }, (_, n) => (n % 5 === 0 ? `held-${n}` : `run-${n}`));
    for (const run of runs) await dispatch.submit(job(run));
    const killed = [];
    for (let round = 0; round < 3; round++) {
      const worker = start([place, "ended"]);
      killed.push(worker);
      await worker.until(/^started held/);
      worker.send("SIGKILL");
      await worker.ended;
    }
    const last = start([place, "ended"]);
    await until(async () => {
      last.write("go");
      return (await dispatch.list()).length === 0;
    });
    const executed = [...killed, last].flatMap(({ lines }) =>
      lines.filter((line) => line.startsWith("returned")).map((line) => line.split(" ")[1]),
    );
    expect([...new Set(executed)].toSorted()).toEqual(runs.toSorted());
  });
});

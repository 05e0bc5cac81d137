import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { Dispatch, Job } from "@holdfast/core/dispatch";
import { startChild } from "@holdfast/test-support/child-process";
import { connectOtherSchema } from "@holdfast/postgres/other-schema";
import { startProxy } from "@holdfast/test-support/postgres-proxy";
import { GUARDED, postgresMissing, sharedPostgres, startPostgres } from "@holdfast/test-support/postgres-server";
import { findDbosDispatch, openDbosDispatch } from "./dbos.ts";

const WORKER = join(import.meta.dirname, "../../test-support/src/store-processes/dispatch-worker.ts");
const HOUR_MS = 3_600_000;
/** For workers that must not look dead, however slow the machine is. */
const ALIVE = { DEAD_MS: "600000" };
const missing = postgresMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

const job = (run: string): Job => ({ run, queue: "q", repository: "r", priority: 0, needs: [] });
const schemaOf = (url: string): string => new URL(url).searchParams.get("schema") ?? "";

async function open(url: string, deadMs = 600_000): Promise<Dispatch> {
  const dispatch = await openDbosDispatch({ url, timings: { lookMs: 20, heartbeatMs: 100, deadMs, tidyMs: 100 } });
  onTestFinished(() => dispatch.close());
  return dispatch;
}

async function until(check: () => Promise<boolean>): Promise<void> {
  while (!(await check())) await sleep(20);
}

const emptied = (dispatch: Dispatch): Promise<void> => until(async () => (await dispatch.list()).length === 0);

test("workers whose clocks are an hour off stay alive and wake no run before its time", async () => {
  const url = (await sharedPostgres()).url();
  const dispatch = await open(url);
  const offsets = [-HOUR_MS, HOUR_MS];
  const workers = offsets.map((offset) =>
    startChild([WORKER, url, "ended"], onTestFinished, { ...ALIVE, CLOCK_OFFSET_MS: String(offset) }),
  );
  for (const worker of workers) await worker.until(/^joined/);
  const at = Date.now() + 5000;
  await dispatch.submit(job("later"), at);
  await dispatch.submit(job("in-half-an-hour"), Date.now() + HOUR_MS / 2);
  await until(async () => (await dispatch.list()).length === 1);
  const started = workers.flatMap(({ lines }) => lines).filter((line) => line.startsWith("started"));
  expect(started).toHaveLength(1);
  expect(Number(started[0]?.split(" at ")[1])).toBeGreaterThanOrEqual(at);
  const ages = (await dispatch.workers()).map(({ heartbeatAgeMs }) => Math.abs(heartbeatAgeMs) < HOUR_MS / 2);
  expect(ages).toEqual([true, true]);
});

test("work continues while the server is killed and started again, and its end is recorded", async () => {
  const server = await startPostgres(onTestFinished);
  const url = server.url();
  const worker = startChild([WORKER, url, "ended"], onTestFinished, ALIVE);
  await worker.until(/^joined/);
  const first = await open(url);
  await first.submit(job("held"));
  await worker.until(/^started held/);
  await first.close();
  await server.crash();
  worker.write("go");
  await worker.until(/^returned held/);
  await server.start();
  const dispatch = await open(url);
  await emptied(dispatch);
  await dispatch.submit(job("next"));
  await emptied(dispatch);
  expect(worker.lines.filter((line) => line.startsWith("started")).map((line) => line.split(" ")[1])).toEqual([
    "held",
    "next",
  ]);
});

test.each(["before", "after"] as const)(
  "a connection that is lost at any statement, %s it is sent: all runs end",
  async (when) => {
    const url = (await sharedPostgres()).url();
    const proxy = await startProxy(url, onTestFinished);
    const watching = await open(url);
    const dispatch = await open(proxy.url(url), 2000);
    const seen: string[] = [];
    await dispatch.join({ labels: [], slots: 2, version: "1" }, async ({ run }) => {
      seen.push(run);
      return { kind: "ended" };
    });
    const runs = Array.from({ length: 25 }, (_, n) => `run-${n}`);
    for (const [n, run] of runs.entries()) {
      await watching.submit(job(run));
      proxy.cut({ statement: n + 1, when, stay: false, all: n % 2 === 0 });
      await emptied(watching);
    }
    expect([...new Set(seen)]).toEqual(runs);
  },
);

test("nothing is left of turns and of workers that are gone", async () => {
  const server = await sharedPostgres();
  const url = server.url();
  const dispatch = await open(url, 2000);
  await dispatch.submit(job("held"));
  const killed = startChild([WORKER, url, "ended"], onTestFinished);
  await killed.until(/^started held/);
  killed.send("SIGKILL");
  await killed.ended;
  await dispatch.join({ labels: [], slots: 2, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(dispatch);
  const count = (table: string): string => server.sql(`SELECT count(*) FROM "${schemaOf(url)}_dbos".${table}`).trim();
  await until(async () => count("workflow_status") === "0" && count("queues") === "1");
  expect([count("workflow_input"), count("workflow_output")]).toEqual(["0", "0"]);
});

test("what a worker has locked when it freezes inside of a transaction of DBOS is free after half a minute", async () => {
  // A server of its own: while the transaction is open, DBOS makes no indexes for other tests.
  const server = await startPostgres(onTestFinished);
  const url = server.url();
  const frozen = startChild([WORKER, url, "ended"], onTestFinished);
  await frozen.until(/^joined/);
  // Its transaction waits for this lock when it freezes, so that the server's answer finds it frozen.
  const { openPool, driver } = await connectOtherSchema({ url, suffix: "dispatch", patienceMs: 0 });
  onTestFinished(() => driver.close());
  const pool = openPool();
  onTestFinished(() => pool.end());
  const blocker = await pool.connect();
  await blocker.query(`BEGIN; LOCK TABLE "${schemaOf(url)}_dbos".workflow_status IN SHARE MODE`);
  const dispatch = await open(url, 2000);
  await dispatch.submit(job("a"));
  const count = (where: string): number =>
    Number(
      server.sql(`SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%"${schemaOf(url)}_dbos"%' AND ${where}`),
    );
  await until(async () => count("wait_event_type = 'Lock' AND query LIKE 'INSERT%'") > 0);
  frozen.send("SIGSTOP");
  await blocker.query("ROLLBACK");
  blocker.release();
  const held = "state = 'idle in transaction'";
  await until(async () => count(held) > 0);
  const other = await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(dispatch);
  await until(async () => count(held) === 0);
  await other.drain();
  // It wakes with a connection that the server has ended in the middle of a transaction, and works on.
  frozen.send("SIGCONT");
  await dispatch.submit(job("b"));
  await frozen.until(/^returned b/);
  await emptied(dispatch);
  expect(frozen.lines.filter((line) => line.startsWith("started a "))).toEqual([]);
});

test("the loss of the tables of DBOS alone changes nothing", async () => {
  const server = await sharedPostgres();
  const url = server.url();
  const first = await open(url);
  const work = async () => ({ kind: "signal" }) as const;
  await first.join({ labels: [], slots: 1, version: "1" }, work);
  await first.submit(job("a"));
  await until(async () => (await first.list())[0]?.wakeAt === null);
  await first.close();
  server.sql(`DROP SCHEMA "${schemaOf(url)}_dbos" CASCADE`);
  const dispatch = await open(url);
  await dispatch.signal("a");
  await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(dispatch);
});

test("a worker that loses the tables while it is joined fails, and the next one executes its entries", async () => {
  const server = await sharedPostgres();
  const url = server.url();
  const first = await open(url);
  const membership = await first.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  for (const suffix of ["dispatch", "dbos"]) server.sql(`DROP SCHEMA "${schemaOf(url)}_${suffix}" CASCADE`);
  // This makes the tables of the queue again, but not those of DBOS.
  const watching = await open(url);
  await watching.submit(job("a"));
  expect(await membership.failed).toMatchObject({ code: "IO_FAILED" });
  await membership.drain();
  await first.close();
  expect(await watching.list()).toMatchObject([{ run: "a", state: "waiting", worker: null }]);
  const next = await open(url);
  await next.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(watching);
});

test("a server that asks for a password gets that of the URL, also from DBOS", async () => {
  const url = (await sharedPostgres()).url();
  const dispatch = await open(url.replace("//holdfast@", `//${GUARDED.role}:${GUARDED.password}@`));
  await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await dispatch.submit(job("a"));
  await emptied(dispatch);
});

test("a process is a worker of one dispatch", async () => {
  const server = await sharedPostgres();
  const [first, second] = [await open(server.url()), await open(server.url())];
  const worker = { labels: [], slots: 1, version: "1" };
  await first.join(worker, async () => ({ kind: "ended" }));
  await expect(second.join(worker, async () => ({ kind: "ended" }))).rejects.toMatchObject({ code: "USAGE" });
  await first.submit(job("a"));
  await emptied(first);
});

test("without DBOS a worker reports what to install, and runs can be submitted", async () => {
  const url = (await sharedPostgres()).url();
  const hide = `import { registerHooks } from "node:module";
    registerHooks({ resolve(name, context, next) {
      if (!name.startsWith("@dbos-inc/")) return next(name, context);
      throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
    } });`;
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--import", `data:text/javascript,${encodeURIComponent(hide)}`, WORKER, url],
    { encoding: "utf8" },
  );
  expect([status, stderr]).toEqual([1, expect.stringContaining("npm install --global @dbos-inc/dbos-sdk@5.3.0")]);
  const dispatch = await open(url);
  expect([await dispatch.submit(job("a")), await dispatch.workers()]).toEqual(["submitted", []]);
});

test("workers that start at once make the tables once, and abort no work of their own", async () => {
  const url = (await sharedPostgres()).url();
  const workers = Array.from({ length: 4 }, () => startChild([WORKER, url, "ended"], onTestFinished, ALIVE));
  for (const worker of workers) await worker.until(/^joined/);
  const dispatch = await open(url);
  for (let n = 0; n < 60; n++) await dispatch.submit(job(`run-${n}`));
  await emptied(dispatch);
  const lines = workers.flatMap((worker) => worker.lines);
  expect(lines.filter((line) => line.startsWith("started"))).toHaveLength(60);
  expect(lines.filter((line) => /^(?:aborted|problem)/.test(line))).toEqual([]);
});

test("a worker that is killed while it makes the tables leaves them to the next one", async () => {
  const url = (await sharedPostgres()).url();
  for (const ms of [300, 600, 900, 1200, 1500]) {
    const worker = startChild([WORKER, url, "ended"], onTestFinished);
    await sleep(ms);
    worker.send("SIGKILL");
    await worker.ended;
  }
  // A worker that had joined is dead, too.
  const dispatch = await open(url, 2000);
  await dispatch.submit(job("a"));
  await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(dispatch);
});

test("a worker needs no right to create once the tables are there", async () => {
  const server = await sharedPostgres();
  const url = server.url();
  const first = await open(url);
  await first.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await first.close();
  const role = `worker_${schemaOf(url)}`;
  server.sql(`CREATE ROLE ${role} LOGIN`);
  const asRole = url.replace("//holdfast@", `//${role}@`);
  const lacks = { code: "STORE_READ_ONLY", message: expect.stringContaining(`${schemaOf(url)}_dispatch`) as string };
  await expect(open(asRole)).rejects.toMatchObject(lacks);
  await expect(findDbosDispatch({ url: asRole })).rejects.toMatchObject(lacks);
  server.sql(`GRANT USAGE ON SCHEMA "${schemaOf(url)}_dispatch" TO ${role}`);
  server.sql(`GRANT SELECT ON ALL TABLES IN SCHEMA "${schemaOf(url)}_dispatch" TO ${role}`);
  await expect(open(asRole)).rejects.toMatchObject(lacks);
  const reader = await findDbosDispatch({ url: asRole });
  expect([await reader?.list(), await reader?.workers()]).toEqual([[], []]);
  await reader?.close();
  expect(await findDbosDispatch({ url: server.url() })).toBeNull();
  for (const suffix of ["dispatch", "dbos"]) {
    const schema = `"${schemaOf(url)}_${suffix}"`;
    server.sql(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    server.sql(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`);
  }
  const dispatch = await open(asRole);
  await dispatch.submit(job("a"));
  await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await emptied(dispatch);
});

test.each([
  { schema: "dispatch", message: "lacks rights on the schema" },
  { schema: "dbos", message: "permission denied" },
])("a role that may only read the schema of $schema cannot join, and the error names the grants", async (read) => {
  const server = await sharedPostgres();
  const url = server.url();
  const first = await open(url);
  await first.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  await first.close();
  const role = `reader_${schemaOf(url)}`;
  server.sql(`CREATE ROLE ${role} LOGIN`);
  for (const suffix of ["dispatch", "dbos"]) {
    const schema = `"${schemaOf(url)}_${suffix}"`;
    const rights = suffix === read.schema ? "SELECT" : "SELECT, INSERT, UPDATE, DELETE";
    server.sql(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    server.sql(`GRANT ${rights} ON ALL TABLES IN SCHEMA ${schema} TO ${role}`);
  }
  const joined = async (): Promise<void> => {
    const dispatch = await open(url.replace("//holdfast@", `//${role}@`));
    await dispatch.join({ labels: [], slots: 1, version: "1" }, async () => ({ kind: "ended" }));
  };
  await expect(joined()).rejects.toMatchObject({
    code: "STORE_READ_ONLY",
    message: expect.stringContaining(read.message) as string,
    hint: expect.stringContaining("docs/postgres.md lists") as string,
  });
});

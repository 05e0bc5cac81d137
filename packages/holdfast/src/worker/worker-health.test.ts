import { describe, expect, onTestFinished, test } from "vitest";
import {
  type WorkerSnapshot,
  askInTime,
  countEntries,
  healthOf,
  newActivity,
  parseHealthAddress,
  serveHealth,
  takeSnapshot,
} from "./worker-health.ts";

const WELL: WorkerSnapshot = {
  worker: "w-1",
  now: 1_000_000,
  lookedAt: 990_000,
  lookEveryMs: 15_000,
  heartbeatAgeMs: 3000,
  problems: [],
  slots: 4,
  busy: 1,
  draining: false,
};

test("a worker that looks and whose heartbeat is fresh is healthy", () => {
  expect(healthOf(WELL)).toEqual({
    status: 200,
    body: {
      healthy: true,
      worker: "w-1",
      heartbeatAgeMs: 3000,
      lookAgeMs: 10_000,
      slots: 4,
      busy: 1,
      draining: false,
      problems: [],
    },
  });
});

test.each<readonly [string, Partial<WorkerSnapshot>, 200 | 503, string | null]>([
  ["drains", { draining: true }, 200, null],
  ["drains, and so looks no more", { draining: true, lookedAt: 0 }, 200, null],
  ["has only begun", { lookedAt: null, heartbeatAgeMs: null }, 200, null],
  ["has a clock that was set back", { lookedAt: 2_000_000 }, 200, null],
  ["lacks its database", { problems: ["the database cannot be reached"] }, 503, "the database cannot be reached"],
  ["counts as dead", { heartbeatAgeMs: 31_000 }, 503, "the last heartbeat was 31 s ago"],
  ["hangs", { lookedAt: 870_000 }, 503, "the last look at the runs was 130 s ago"],
])("a worker that %s", (_, more, status, problem) => {
  const health = healthOf({ ...WELL, ...more });
  expect([health.status, health.body.problems]).toEqual([status, problem === null ? [] : [problem]]);
});

test("a snapshot has what the databases say, until the worker drains", async () => {
  const activity = { ...newActivity(), busy: 1, problems: ["cannot look at /shop"] };
  const probe = async (worker: string) => ({ heartbeatAgeMs: worker.length, problems: ["the queue: gone"] });
  expect(await takeSnapshot(activity, 15_000, probe)).toMatchObject({
    busy: 1,
    heartbeatAgeMs: activity.worker.length,
    problems: ["cannot look at /shop", "the queue: gone"],
  });
  activity.draining = true;
  expect(await takeSnapshot(activity, 15_000, probe)).toMatchObject({ heartbeatAgeMs: null, problems: [] });
});

test("a database that does not answer gets one question, and its answer reaches the next caller", async () => {
  const questions: PromiseWithResolvers<number>[] = [];
  const ask = askInTime(() => {
    const question = Promise.withResolvers<number>();
    questions.push(question);
    return question.promise;
  }, 1);
  await expect(ask()).rejects.toThrow("no answer within 0.001 s");
  await expect(ask()).rejects.toThrow("no answer");
  expect(questions).toHaveLength(1);
  const [first] = questions;
  first?.resolve(7);
  expect(await ask()).toBe(7);
  const failing = ask();
  questions.at(-1)?.reject(new Error("gone"));
  await expect(failing).rejects.toThrow("gone");
});

test("entries are counted by state; one whose time has come is due", () => {
  const job = { run: "s/r", queue: "q", repository: "r", priority: 0, needs: [] };
  const waiting = [null, 0, 5, 6].map((wakeAt) => ({ ...job, state: "waiting" as const, wakeAt, worker: null }));
  const active = { ...job, state: "active" as const, wakeAt: null, worker: "w" };
  expect(countEntries([...waiting, active], 5)).toEqual({ waiting: 2, due: 2, active: 1 });
});

describe("the address", () => {
  test.each([
    ["8080", "127.0.0.1", 8080],
    ["0.0.0.0:80", "0.0.0.0", 80],
    ["[::1]:9", "::1", 9],
    ["host.example:1", "host.example", 1],
  ])("%s", (given, host, port) => expect(parseHealthAddress(given)).toEqual({ host, port }));

  test.each(["", "x", "70000", "http://localhost:80", "::1:80", "-1", "80 "])("%j is refused", (given) => {
    expect(() => parseHealthAddress(given)).toThrow(expect.objectContaining({ code: "USAGE" }));
  });
});

test("the endpoint answers each request with the state of that moment, and nothing else", async () => {
  let busy = 1;
  const endpoint = await serveHealth({ host: "127.0.0.1", port: 0 }, () => {
    if (busy > 2) throw new Error("no state");
    return { ...WELL, busy };
  });
  onTestFinished(() => endpoint[Symbol.asyncDispose]());
  const first = await fetch(endpoint.url);
  expect([first.status, await first.json()]).toMatchObject([200, { healthy: true, busy: 1 }]);
  busy = 2;
  expect(await (await fetch(endpoint.url)).json()).toMatchObject({ busy: 2 });
  busy = 3;
  expect((await fetch(endpoint.url)).status).toBe(503);
  expect((await fetch(endpoint.url.replace("/health", "/metrics"))).status).toBe(404);
  expect((await fetch(endpoint.url, { method: "POST" })).status).toBe(405);
  const port = Number(new URL(endpoint.url).port);
  await expect(serveHealth({ host: "127.0.0.1", port }, () => WELL)).rejects.toMatchObject({ code: "USAGE" });
});

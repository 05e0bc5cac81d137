import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import type { Attempt } from "./plan-work.ts";
import { openWorkerState } from "./worker-state.ts";

const ATTEMPT: Attempt = { failures: 2, startedAt: "2026-11-18T12:00:00.000Z", endedAt: null, entries: null };

function scene() {
  const home = scratchDirectory(onTestFinished);
  const state = openWorkerState({ HOME: home });
  return { home, state, list: join(state.directory, "repositories") };
}

test("the list is in the user's state directory, sorted, and adding twice changes nothing", () => {
  const { home, state } = scene();
  expect(state.directory).toBe(join(home, ".local/state/holdfast/worker"));
  expect(openWorkerState({ HOME: home, XDG_STATE_HOME: "/state" }).directory).toBe("/state/holdfast/worker");
  expect(openWorkerState({ HOME: home, XDG_STATE_HOME: "relative" }).directory).toBe(state.directory);
  expect(state.repositories()).toEqual([]);
  const [shop, app] = [
    { root: "/shop", store: null },
    { root: "/app", store: "/stores/app" },
  ];
  expect([state.add(shop), state.add(app), state.add(shop)]).toEqual([true, true, false]);
  expect(state.repositories()).toEqual([app, shop]);
  expect(state.add({ ...shop, store: "/stores/shop" })).toBe(true);
  expect([state.remove("/app"), state.remove("/app")]).toEqual([true, false]);
  expect(state.repositories()).toEqual([{ root: "/shop", store: "/stores/shop" }]);
});

test("repositories that processes add and remove at the same time are all in the list, or not in it", async () => {
  const { home, state } = scene();
  for (let at = 0; at < 4; at += 1) state.add({ root: `/old-${at}`, store: null });
  const script = (at: number): string => `
    const { openWorkerState } = await import(${JSON.stringify(join(import.meta.dirname, "worker-state.ts"))});
    const state = openWorkerState({ HOME: ${JSON.stringify(home)} });
    for (let n = 0; n < 25; n += 1) state.add({ root: "/new-${at}-" + n, store: null });
    state.remove("/old-${at}");`;
  const ended = [0, 1, 2, 3].map(async (at) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", script(at)], { stdio: "inherit" });
    const [status] = await once(child, "exit");
    expect(status).toBe(0);
  });
  await Promise.all(ended);
  const wanted = [0, 1, 2, 3].flatMap((at) => Array.from({ length: 25 }, (_, n) => `/new-${at}-${n}`));
  expect(new Set(state.repositories().map(({ root }) => root))).toEqual(new Set(wanted));
});

test("attempts are read as they were written, and `clear` leaves nothing", () => {
  const { home, state } = scene();
  state.saveHistory(new Map());
  expect(readdirSync(home)).toEqual([]);
  const history = new Map([["/shop\0issue-1", ATTEMPT]]);
  state.saveHistory(history);
  expect(state.history()).toEqual(history);
  expect(state.serviceFlags()).toEqual([]);
  state.saveServiceFlags(["--join", "--label", "a b"]);
  expect(state.serviceFlags()).toEqual(["--join", "--label", "a b"]);
  expect([state.clear(), state.clear()]).toEqual([true, false]);
  expect(readdirSync(join(home, ".local/state"))).toEqual([]);
});

test("a list that other users can write is not used, and one that does not parse is an error", () => {
  const { state, list } = scene();
  state.add({ root: "/shop", store: null });
  const [name = ""] = readdirSync(list);
  const entry = join(list, name);
  writeFileSync(join(list, `${"0".repeat(32)}.json`), JSON.stringify({ version: 1, root: "relative" }));
  writeFileSync(join(list, `.holdfast-tmp-${name}`), '{"version": 1, "ro');
  expect(state.repositories()).toEqual([{ root: "/shop", store: null }]);
  chmodSync(entry, 0o666);
  expect(state.repositories()).toEqual([]);
  chmodSync(entry, 0o600);
  writeFileSync(entry, '{"version": 1, "ro');
  expect(() => state.repositories()).toThrow(/cannot be read/);
});

test("one worker excludes another, and a killed one does not", () => {
  const { home, state } = scene();
  expect(state.worker("own")).toBeNull();
  const lock = state.lock("own");
  expect(state.worker("own")).toBe(process.pid);
  // A worker of the other kind may run beside it.
  expect(state.worker("joined")).toBeNull();
  state.lock("joined").release();
  expect(() => openWorkerState({ HOME: home }).lock("own")).toThrow(`A worker runs already (pid ${process.pid})`);
  lock.release();
  expect(state.worker("own")).toBeNull();
  expect(existsSync(state.directory)).toBe(false);
  const script = `const { openWorkerState } = await import(${JSON.stringify(join(import.meta.dirname, "worker-state.ts"))});
    openWorkerState({ HOME: ${JSON.stringify(home)} }).lock("own");
    process.kill(process.pid, "SIGKILL");`;
  expect(spawnSync(process.execPath, ["--input-type=module", "-e", script])).toMatchObject({ signal: "SIGKILL" });
  expect(state.worker("own")).toBeNull();
  state.lock("own").release();
  expect(readdirSync(join(state.directory, "alive"))).toEqual([]);
});

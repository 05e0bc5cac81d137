import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { processIdentity, randomId } from "./identity.ts";
import { keepProcessRecords, readProcessRecords, removeStaleRecords, writeProcessRecord } from "./process-records.ts";
import { readProcess, readProcessTable, terminateTree } from "./process-tree.ts";

/** Each in its own session and without environment: a root starts a helper, which starts a writer and exits when there is a file `go`. */
const ALONE = '{ detached: true, env: {}, stdio: "ignore" }';
const ROOT = `require("node:child_process").spawn(process.execPath, ["helper.cjs"], ${ALONE}); setInterval(() => {}, 1000);`;
const HELPER = `
  const { existsSync, writeFileSync } = require("node:fs");
  const { pid } = require("node:child_process").spawn("/bin/sleep", ["600"], ${ALONE});
  writeFileSync("pids", process.pid + " " + pid + " ");
  setInterval(() => existsSync("go") && process.exit(), 20);`;

test.skipIf(readProcessTable() === null)(
  "a process without mark, parent and group is ended after its supervisor and the watchdog were killed (needs a table of processes)",
  async () => {
    const folder = scratchDirectory(onTestFinished);
    const [owner, records] = [randomId(), join(folder, "records")];
    writeFileSync(join(folder, "root.cjs"), ROOT);
    writeFileSync(join(folder, "helper.cjs"), HELPER);
    const mark = `${owner}/run/1/step`;
    const supervise = `
      const { runMarked } = await import(${JSON.stringify(import.meta.resolve("./marked-process.ts"))});
      const { keepProcessRecords } = await import(${JSON.stringify(import.meta.resolve("./process-records.ts"))});
      keepProcessRecords(${JSON.stringify(owner)}, ${JSON.stringify(records)});
      await runMarked({
        command: process.execPath, args: ["root.cjs"], cwd: ${JSON.stringify(folder)},
        env: { ...process.env, HOLDFAST_MARK: ${JSON.stringify(mark)} }, mark: ${JSON.stringify(mark)},
        input: "", timeoutMs: null, idleMs: null, signal: new AbortController().signal, onOutput: () => undefined,
      });`;
    const supervisor = spawn(process.execPath, ["--input-type=module", "-e", supervise], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    onTestFinished(() => void supervisor.kill("SIGKILL"));
    await until(() => existsSync(join(folder, "pids")) && readFileSync(join(folder, "pids"), "utf8").endsWith(" "));
    const [helper = 0, writer = 0] = readFileSync(join(folder, "pids"), "utf8").split(" ").map(Number);
    await until(() => readProcessRecords(records).some(({ pid }) => pid === writer));
    onTestFinished(() => void spawn("kill", ["-9", String(writer)], { stdio: "ignore" }));
    const watchdogs = (): readonly number[] => {
      const live = readProcessTable()?.live ?? [];
      return live.filter((one) => one.parent === supervisor.pid && one.supervisor === null).map(({ pid }) => pid);
    };
    // Pid 0 would be the group of this test. A busy system may not list its processes at once.
    let [watchdog] = watchdogs();
    while (watchdog === undefined) [watchdog] = watchdogs();
    process.kill(watchdog, "SIGKILL");
    supervisor.kill("SIGKILL");
    await once(supervisor, "exit");
    writeFileSync(join(folder, "go"), "");
    await until(() => readProcess(helper) === null);
    const alone = readProcess(writer);
    expect(alone).toMatchObject({ mark: null, supervisor: null, group: writer });

    keepProcessRecords(owner, records);
    expect((await terminateTree({ mark: `${owner}/other` })).ended).toBe(0);
    expect(readProcess(writer)).not.toBeNull();
    expect((await terminateTree({ mark: `${owner}/run` })).ended).toBeGreaterThanOrEqual(2);
    expect(readProcess(writer)).toBeNull();
    expect(readdirSync(records)).toEqual([]);
  },
);

test("a record of another boot, a torn one and a pid that was reused name no process", () => {
  const records = join(scratchDirectory(onTestFinished), "records");
  const self = { pid: process.pid, started: processIdentity().started ?? "", mark: "a/run" };
  writeProcessRecord(records, "now", [self]);
  expect(readProcessRecords(records)).toEqual([self]);
  const boot = `0${processIdentity().boot ?? ""}`;
  writeFileSync(join(records, "old.processes.json"), JSON.stringify({ boot, processes: [self] }));
  writeFileSync(join(records, "torn.processes.json"), '{"boot":');
  writeFileSync(
    join(records, "odd.processes.json"),
    JSON.stringify({ boot: processIdentity().boot, processes: [{ pid: 1 }] }),
  );
  expect(readProcessRecords(records)).toEqual([self]);
  removeStaleRecords(records, () => true);
  expect(readdirSync(records).toSorted()).toEqual(["now.processes.json", "torn.processes.json"]);
  removeStaleRecords(records, ({ started }) => started === "another");
  expect(readdirSync(records)).toEqual(["torn.processes.json"]);
  expect(readProcessRecords(join(records, "missing"))).toEqual([]);
});

test("a record is removed with its last process", () => {
  const records = scratchDirectory(onTestFinished);
  mkdirSync(join(records, "sub"));
  writeProcessRecord(records, "one", [{ pid: 2, started: "1", mark: "a/run" }]);
  writeProcessRecord(records, "one", []);
  expect(readdirSync(records)).toEqual(["sub"]);
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(20);
}

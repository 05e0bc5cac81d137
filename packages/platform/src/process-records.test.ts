import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { processIdentity, randomId } from "./identity.ts";
import { readPidCount } from "./pid-reuse.ts";
import {
  keepProcessRecords,
  readProcessRecords,
  readRecordedNumbers,
  removeStaleRecords,
  writeProcessRecord,
} from "./process-records.ts";
import { readProcess, readProcessTable, terminateTree } from "./process-tree.ts";

/**
 * Each in its own session and without environment: a root starts a helper, which starts a writer. When there is a file
 * `go`, the helper starts one more process in its own session and exits. When there is a file `end`, the root exits.
 */
const ALONE = '{ detached: true, env: {}, stdio: "ignore" }';
const ROOT = `require("node:child_process").spawn(process.execPath, ["helper.cjs"], ${ALONE});
  setInterval(() => require("node:fs").existsSync("end") && process.exit(), 20);`;
const HELPER = `
  const { appendFileSync, existsSync } = require("node:fs");
  const { spawn } = require("node:child_process");
  appendFileSync("pids", process.pid + " " + spawn("/bin/sleep", ["600"], ${ALONE}).pid + " ");
  setInterval(() => {
    if (!existsSync("go")) return;
    appendFileSync("pids", spawn("/bin/sleep", ["600"], { cwd: "/", env: {}, stdio: "ignore" }).pid + " ");
    process.exit();
  }, 20);`;

/** Starts a supervisor of the root and waits until the watchdog has recorded the helper and the writer. */
async function startSupervisor() {
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
  const pids = async (count: number): Promise<readonly number[]> => {
    const read = (): readonly string[] =>
      existsSync(join(folder, "pids")) ? readFileSync(join(folder, "pids"), "utf8").split(" ").slice(0, -1) : [];
    await until(() => read().length === count);
    for (const pid of read()) onTestFinished(() => void spawn("kill", ["-9", pid], { stdio: "ignore" }));
    return read().map(Number);
  };
  const both = await pids(2);
  await until(() => both.every((one) => readProcessRecords(records).some(({ pid }) => pid === one)));
  /** The helper starts its last process, which has the helper's session and nothing else of the run, and exits. */
  const leaveHelper = async (): Promise<readonly number[]> => {
    writeFileSync(join(folder, "go"), "");
    const [helper = 0, writer = 0, late = 0] = await pids(3);
    await until(() => readProcess(helper) === null);
    return [writer, late];
  };
  return { folder, owner, records, supervisor, leaveHelper };
}

describe.skipIf(readProcessTable() === null)("processes without mark and parent (needs a table of processes)", () => {
  test("are ended after their supervisor and the watchdog were killed: recorded ones, and later ones of a recorded session or group", async () => {
    const { owner, records, supervisor, leaveHelper } = await startSupervisor();
    const watchdogs = (): readonly number[] => {
      const live = readProcessTable()?.live ?? [];
      return live.filter((one) => one.parent === supervisor.pid && one.supervisor === null).map(({ pid }) => pid);
    };
    // Pid 0 would be the group of this test. A busy system may not list its processes at once.
    let [watchdog] = watchdogs();
    while (watchdog === undefined) [watchdog] = watchdogs();
    // Stopped first: a supervisor that lives a moment longer would start another one, which ends the root.
    process.kill(watchdog, "SIGSTOP");
    supervisor.kill("SIGKILL");
    await once(supervisor, "exit");
    process.kill(watchdog, "SIGKILL");
    const [writer = 0, late = 0] = await leaveHelper();
    expect(readProcess(writer)).toMatchObject({ mark: null, supervisor: null, group: writer });
    expect(readProcess(late)).toMatchObject({ mark: null, supervisor: null });

    keepProcessRecords(owner, records);
    expect((await terminateTree({ mark: `${owner}/other` })).ended).toBe(0);
    expect([readProcess(writer), readProcess(late)]).not.toContain(null);
    expect((await terminateTree({ mark: `${owner}/run` })).ended).toBeGreaterThanOrEqual(3);
    expect([readProcess(writer), readProcess(late)]).toEqual([null, null]);
    expect(readdirSync(records)).toEqual([]);
  });

  test("are ended when the program itself ends", async () => {
    const { folder, records, supervisor, leaveHelper } = await startSupervisor();
    const left = await leaveHelper();
    writeFileSync(join(folder, "end"), "");
    await once(supervisor, "exit");
    expect(left.map(readProcess)).toEqual([null, null]);
    await until(() => readdirSync(records).length === 0);
  });

  test("are not ended if the recorded number of their session may have been given out again, or another process has it", async () => {
    const records = scratchDirectory(onTestFinished);
    const owner = randomId();
    const mark = `${owner}/run`;
    keepProcessRecords(owner, records);
    const program = `console.log(require("node:child_process").spawn("/bin/sleep", ["600"], { stdio: "ignore" }).pid);
      setInterval(() => {}, 1000);`;
    const leader = spawn(process.execPath, ["-e", program], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
    const number = leader.pid ?? expect.fail("the leader did not start");
    const member = Number(await once(leader.stdout, "data"));
    onTestFinished(() => void spawn("kill", ["-9", `${number}`, `${member}`], { stdio: "ignore" }));
    const endedWith = async (seen: number): Promise<number> => {
      writeProcessRecord(records, "old", { processes: [], numbers: [{ number, seen, mark }] });
      return (await terminateTree({ mark })).ended;
    };
    const { started } = readPidCount();
    expect(await endedWith(started)).toBe(0);
    leader.kill("SIGKILL");
    await once(leader, "exit");
    // No system has more numbers.
    expect(await endedWith(started - 2 ** 22)).toBe(0);
    expect(readRecordedNumbers(records)).toHaveLength(1);
    expect(await endedWith(started)).toBe(1);
    expect(readProcess(member)).toBeNull();
    expect(readdirSync(records)).toEqual([]);
  });
});

test("a record of another boot, a torn one and a pid that was reused name no process", () => {
  const records = join(scratchDirectory(onTestFinished), "records");
  const self = { pid: process.pid, started: processIdentity().started ?? "", mark: "a/run" };
  writeProcessRecord(records, "now", { processes: [self], numbers: [] });
  expect(readProcessRecords(records)).toEqual([self]);
  const boot = `0${processIdentity().boot ?? ""}`;
  writeFileSync(join(records, "old.processes.json"), JSON.stringify({ boot, processes: [self] }));
  writeFileSync(join(records, "torn.processes.json"), '{"boot":');
  writeFileSync(
    join(records, "odd.processes.json"),
    JSON.stringify({ boot: processIdentity().boot, processes: [{ pid: 1 }] }),
  );
  expect(readProcessRecords(records)).toEqual([self]);
  removeStaleRecords(records, { isLive: () => true, isInUse: () => false });
  expect(readdirSync(records).toSorted()).toEqual(["now.processes.json", "torn.processes.json"]);
  removeStaleRecords(records, { isLive: ({ started }) => started === "another", isInUse: () => true });
  expect(readdirSync(records)).toEqual(["torn.processes.json"]);
  expect(readProcessRecords(join(records, "missing"))).toEqual([]);
});

test("a record is removed with its last process and its last number", () => {
  const records = scratchDirectory(onTestFinished);
  mkdirSync(join(records, "sub"));
  const numbers = [{ number: 2, seen: 5, mark: "a/run" }];
  writeProcessRecord(records, "one", { processes: [{ pid: 2, started: "1", mark: "a/run" }], numbers });
  expect(readRecordedNumbers(records)).toEqual(numbers);
  removeStaleRecords(records, { isLive: () => false, isInUse: ({ number }) => number === 2 });
  expect(readdirSync(records)).toEqual(["one.processes.json", "sub"]);
  writeProcessRecord(records, "one", { processes: [], numbers });
  expect(readRecordedNumbers(records)).toEqual(numbers);
  writeProcessRecord(records, "one", { processes: [], numbers: [] });
  expect(readdirSync(records)).toEqual(["sub"]);
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(20);
}

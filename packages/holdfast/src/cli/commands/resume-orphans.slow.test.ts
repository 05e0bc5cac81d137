import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { GOOD, type Started, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { readProcessRecords } from "@holdfast/platform/process-records";
import { type ProcessEntry, readProcess, readProcessTable } from "@holdfast/platform/process-tree";
import { openHoldfast } from "../../open.ts";
import { stoppedKey } from "../../worker/plan-work.ts";

const work = workSuite();

/** A run whose agent does not listen to SIGTERM and would work for a long time. */
async function startStubborn(place: WorkPlace): Promise<Started & { readonly agent: number }> {
  const file = join(place.clone, "../agent.pid");
  const started = place.start(
    "run",
    "1",
    "--no-review",
    "--agent",
    `command:trap '' TERM HUP; echo $$ > '${file}'; while :; do sleep 1; done`,
  );
  while (!existsSync(file) || readFileSync(file, "utf8").trim() === "") await pause(50);
  return { ...started, agent: Number(readFileSync(file, "utf8")) };
}

function isAlive(pid: number): boolean {
  return readProcess(pid) !== null;
}

describe("no agent continues alone", () => {
  test("after a second Ctrl+C, and the run can be resumed", async () => {
    const place = await work.begin();
    const { child, agent, ended } = await startStubborn(place);
    await using holdfast = await openHoldfast({ cwd: place.clone, create: false, readOnly: true });
    child.kill("SIGINT");
    // Recorded at once, while the agent does not end.
    while ((await holdfast.store.getMeta(stoppedKey("issue-1"))) === undefined) await pause(20);
    child.kill("SIGINT");
    expect((await ended).status).toBe(130);
    while (isAlive(agent)) await pause(20);
    expect(await place.json("status", "1")).toMatchObject({ run: { status: { kind: "crashed" } } });
    const worker = await place.run("worker", "--once", "--here");
    expect(worker.stdout).toBe(`Leaving issue-1 in ${place.clone}: you stopped it\n`);
    const done = await place.run("resume", "1", "--agent", await place.agent([GOOD]));
    expect(done.status, done.stdout + done.stderr).toBe(0);
  });

  test("when Holdfast and its watchdog are killed, or at the end of a call: a writer without mark, parent and group is ended before the next agent, or resume asks", async () => {
    const place = await work.begin();
    const at = (name: string): string => join(place.clone, "..", name);
    // The writer has its own session and no environment. Its parent exits when there is a file `go`. When there is a file
    // `fork`, it starts a writer in the same session, outside the worktree, and exits.
    await writeFile(
      at("helper.cjs"),
      `const { existsSync, writeFileSync } = require("node:fs");
        const fork = "(cd /; while :; do echo old >> $file; sleep 0.1; done) & echo $! > $0/forked; exit";
        const each = "[ ! -e $0/fork ] || { " + fork + "; }; echo old >> $file; sleep 0.1";
        const write = ["-c", "file=$PWD/old.txt; while :; do " + each + "; done", ${JSON.stringify(at(""))}];
        const alone = { detached: true, env: {}, stdio: "ignore" };
        const begin = () => require("node:child_process").spawn("/bin/sh", write, alone).pid;
        let pid = 0;
        setInterval(() => {
          if (pid === 0 && existsSync(${JSON.stringify(at("start"))})) {
            pid = begin();
            writeFileSync(${JSON.stringify(at("writer"))}, pid + "\\n");
          }
          if (existsSync(${JSON.stringify(at("go"))})) process.exit();
        }, 20);
        writeFileSync(${JSON.stringify(at("helper"))}, process.ppid + "\\n");`,
    );
    const agent = `command:'${process.execPath}' '${at("helper.cjs")}'; sleep 600`;
    const written = (name: string): boolean => existsSync(at(name)) && readFileSync(at(name), "utf8").endsWith("\n");
    const until = async (holds: () => boolean): Promise<void> => {
      while (!holds()) await pause(20);
    };
    /** Returns the pid of the writer, whose parent and Holdfast are gone. */
    const crash = async (started: Started, isSeen: boolean): Promise<number> => {
      await until(() => written("helper"));
      // The other child is the agent's shell.
      const shell = Number(readFileSync(at("helper"), "utf8"));
      const isDog = ({ pid, parent }: ProcessEntry) => parent === started.child.pid && pid !== shell;
      let dogs: readonly ProcessEntry[] = [];
      await until(() => (dogs = readProcessTable()?.live.filter(isDog) ?? []).length === 1);
      const [dog] = dogs;
      if (dog === undefined) throw new Error("there is no watchdog");
      if (!isSeen) process.kill(dog.pid, "SIGSTOP");
      await writeFile(at("start"), "");
      await until(() => written("writer"));
      const writer = Number(readFileSync(at("writer"), "utf8"));
      onTestFinished(() => void execFileSync("sh", ["-c", `kill -9 ${writer} 2>/dev/null || :`]));
      const records = join(place.clone, ".git/holdfast/alive");
      if (isSeen) await until(() => readProcessRecords(records).some(({ pid }) => pid === writer));
      process.kill(dog.pid, "SIGKILL");
      started.child.kill("SIGKILL");
      await writeFile(at("go"), "");
      await started.ended;
      await until(() => readProcess(writer)?.parent === 1);
      for (const name of ["start", "go", "helper", "writer"]) rmSync(at(name));
      return writer;
    };
    const unseen = await crash(place.start("run", "1", "--no-review", "--agent", agent), false);
    const asked = await place.run("resume", "1", "--agent", agent);
    expect(asked.status, asked.stdout + asked.stderr).toBe(4);
    expect(asked.stdout.replaceAll(/\s+/g, " ")).toContain(`\`kill ${unseen}\``);
    expect(asked.stdout).toContain("--accept process_left");
    expect(isAlive(unseen)).toBe(true);
    process.kill(unseen, "SIGKILL");
    const seen = await crash(place.start("resume", "1"), true);
    /** The recorded writer exits. Only its session shows to whom the next one belongs. */
    const fork = async (writer: number): Promise<number> => {
      await writeFile(at("fork"), "");
      await until(() => written("forked") && !isAlive(writer));
      const forked = Number(readFileSync(at("forked"), "utf8"));
      onTestFinished(() => void execFileSync("sh", ["-c", `kill -9 ${forked} 2>/dev/null || :`]));
      for (const name of ["fork", "forked"]) rmSync(at(name));
      return forked;
    };
    const late = await fork(seen);
    expect(isAlive(late)).toBe(true);
    // The next agent starts such a writer as well, and ends.
    const own = `'${process.execPath}' '${at("helper.cjs")}'; while [ ! -e '${at("end")}' ]; do sleep 0.1; done; rm -f old.txt`;
    const next = `command:rm -f old.txt; sleep 1; [ ! -e old.txt ] || touch '${at("beside")}'; ${own}; echo 42 > answer.txt`;
    const resumed = place.start("resume", "1", "--agent", next);
    await until(() => written("helper"));
    expect([existsSync(at("beside")), isAlive(late)]).toEqual([false, false]);
    await writeFile(at("start"), "");
    await until(() => written("writer"));
    const writer = Number(readFileSync(at("writer"), "utf8"));
    onTestFinished(() => void execFileSync("sh", ["-c", `kill -9 ${writer} 2>/dev/null || :`]));
    await until(() => readProcessRecords(join(place.clone, ".git/holdfast/alive")).some(({ pid }) => pid === writer));
    await writeFile(at("go"), "");
    const last = await fork(writer);
    await writeFile(at("end"), "");
    const done = await resumed.ended;
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(isAlive(last)).toBe(false);
  });

  test("when the terminal is closed: the run is saved as for any other signal, for any number of signals", async () => {
    const place = await work.begin();
    const { child, agent, ended } = await startStubborn(place);
    child.kill("SIGHUP");
    child.kill("SIGHUP");
    expect((await ended).status).toBe(143);
    expect(isAlive(agent)).toBe(false);
    expect(await place.json("status", "1")).toMatchObject({ run: { status: { kind: "paused" } } });
  });
});

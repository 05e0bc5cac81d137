import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { randomId } from "./identity.ts";
import {
  type ProcessEntry,
  type ProcessTarget,
  findTargets,
  numbersOf,
  readProcess,
  terminateTree,
  unrelatedProcesses,
} from "./process-tree.ts";

describe("process tree", () => {
  test.runIf(process.platform === "darwin")(
    "where `ps` hides the environment of the system's programs: their parents and groups show them",
    async () => {
      const mark = `run-${randomId()}`;
      const program = `
        const { spawn } = require("node:child_process");
        const node = (code) => spawn(process.execPath, ["-e", code], { detached: true, stdio: "inherit" });
        console.log(process.pid, spawn("sleep", ["600"]).pid, node("setInterval(() => {}, 1000)").pid);
        node('console.log(process.pid, require("node:child_process").spawn("sleep", ["600"]).pid); process.exit()');
        setInterval(() => {}, 1000);`;
      const leader = spawn(process.execPath, ["-e", program], {
        detached: true,
        env: { ...process.env, HOLDFAST_MARK: `${mark}/1/step` },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let text = "";
      leader.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      await until(() => text.trim().split(/\s+/).length === 5);
      const [own = 0, child = 0, marked = 0, parent = 0, orphan = 0] = text.trim().split(/\s+/).map(Number);
      onTestFinished(() => {
        for (const pid of [own, child, marked, orphan]) spawn("kill", ["-9", String(pid)], { stdio: "ignore" });
      });
      await until(() => !isAlive(parent));
      leader.kill("SIGKILL");
      await once(leader, "exit");
      // Without its parent, nothing but its group shows the first `sleep`. The last one lost its parent and its group.
      expect(await terminateTree({ mark, groups: [own] })).toEqual({ ended: 2, supported: true });
      expect([own, child, marked].filter(isAlive)).toEqual([]);
      expect(isAlive(orphan)).toBe(true);
      const seen: ProcessTarget = { entry: readProcess(orphan) ?? unreachable(), foundBy: "parent" };
      expect(await terminateTree({ mark, seen: new Map([[orphan, seen]]) })).toEqual({ ended: 1, supported: true });
      expect(isAlive(orphan)).toBe(false);
    },
  );

  describe.skipIf(process.platform !== "linux")("a marked tree, which only /proc shows", () => {
    test("a process in its own session, double-forked or ignoring signals is ended", async () => {
      const mark = `run-${randomId()}`;
      const pids = await startTree({
        mark: `${mark}/3/implement`,
        // Each line writes a pid: a new session; a double fork whose parent is gone; one that ignores SIGTERM, with its
        // child.
        script: `
        setsid sh -c 'echo $$; exec sleep 600' &
        (setsid sh -c 'echo $$; exec sleep 600' &)
        setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 600; done' &
        echo $$; wait`,
        count: 4,
      });
      expect(await terminateTree({ mark, graceMs: 100 })).toMatchObject({ supported: true });
      expect(pids.filter(isAlive)).toEqual([]);
      expect(await terminateTree({ mark })).toEqual({ ended: 0, supported: true });
    });

    test("processes first get a signal, so that they can clean up", async () => {
      const mark = `run-${randomId()}`;
      const file = join(scratchDirectory(onTestFinished), "tidied");
      await startTree({
        mark,
        script: `trap 'echo yes > ${file}; exit 0' TERM; echo $$; while :; do sleep 0.05; done`,
        count: 1,
      });
      await terminateTree({ mark, graceMs: 20_000 });
      expect(readFileSync(file, "utf8")).toBe("yes\n");
    });

    test.for([{ graceMs: 20_000 }, { graceMs: 0 }])(
      "no script continues because one of its commands was ended first, with $graceMs ms to clean up",
      async ({ graceMs }) => {
        const mark = `run-${randomId()}`;
        const file = join(scratchDirectory(onTestFinished), "continued");
        const one = `sh -c 'sleep 600 & echo $!; wait; echo on >> "${file}"; sleep 600' &`;
        await startTree({ mark, script: `${one.repeat(30)} echo $$; wait`, count: 31 });
        await terminateTree({ mark, graceMs });
        expect(existsSync(file)).toBe(false);
      },
    );

    test("children that start meanwhile are ended too", async () => {
      const mark = `run-${randomId()}`;
      const directory = scratchDirectory(onTestFinished);
      const note = join(directory, "pids");
      writeFileSync(note, "");
      // On SIGTERM it starts another session that ignores signals, and exits.
      await startTree({
        mark,
        script: `trap 'setsid sh -c "trap \\"\\" TERM; echo \\$\\$ >> ${note}; sleep 600"& exit 0' TERM; echo $$; while :; do sleep 0.02; done`,
        count: 1,
      });
      const { ended } = await terminateTree({ mark, graceMs: 500 });
      const late = readFileSync(note, "utf8").trim().split("\n").map(Number);
      expect(late).toHaveLength(1);
      expect(ended).toBeGreaterThanOrEqual(2);
      expect(late.filter(isAlive)).toEqual([]);
    });

    test("a process that forks and exits repeatedly is ended", async () => {
      const mark = `run-${randomId()}`;
      const directory = scratchDirectory(onTestFinished);
      const beat = join(directory, "beat");
      // Each process lives a millisecond, ignores SIGTERM and has its own session, so it is gone before a scan ends. If
      // it is not caught, it ends by itself after 30 seconds.
      const hop = `use POSIX; $SIG{TERM} = "IGNORE"; my $end = time + 30; while (time < $end) { fork and POSIX::_exit(0); setsid; open F, ">>", $ARGV[0]; print F "x"; close F; select undef, undef, undef, 0.001 }`;
      await startTree({ mark, script: `echo $$; perl -e '${hop}' ${beat} & wait`, count: 1 });
      await until(() => existsSync(beat));
      await terminateTree({ mark, graceMs: 50 });
      const before = statSync(beat).size;
      await pause(100);
      expect(statSync(beat).size).toBe(before);
    });

    test("a child without its mark is ended with its parent", async () => {
      const mark = `run-${randomId()}`;
      const pids = await startTree({
        mark,
        script: `env -i sh -c 'echo $$; exec sleep 600' & echo $$; wait`,
        count: 2,
      });
      expect(pids.map((pid) => readProcess(pid)?.mark)).toContain(null);
      await terminateTree({ mark, graceMs: 100 });
      expect(pids.filter(isAlive)).toEqual([]);
    });

    test("a mark matches whole names: run-1 does not match run-12, nor a step another step", async () => {
      const mark = `run-${randomId()}`;
      const script = "echo $$; exec sleep 600";
      const [other] = await startTree({ mark: `${mark}2/1/a`, script, count: 1 });
      const [neighbour] = await startTree({ mark: `${mark}/1/ab`, script, count: 1 });
      const [wanted] = await startTree({ mark: `${mark}/1/a`, script, count: 1 });
      expect((await terminateTree({ mark: `${mark}/1/a` })).ended).toBe(1);
      expect([other, neighbour, wanted].map((pid) => isAlive(pid ?? 0))).toEqual([true, true, false]);
      await terminateTree({ mark });
      await terminateTree({ mark: `${mark}2` });
    });

    test("a process that cannot be ended is reported with its pid", async () => {
      const mark = `run-${randomId()}`;
      const [pid] = await startTree({ mark, script: "echo $$; exec sleep 600", count: 1 });
      // A grace and force time of zero simulates a process that cannot be killed.
      await expect(terminateTree({ mark, graceMs: 0, forceMs: 0 })).rejects.toMatchObject({
        code: "WORKSPACE_BUSY",
        message: expect.stringContaining(`Process ${pid} of ${mark}`),
        data: { pids: [pid] },
      });
    });

    test("this process and its ancestors are spared, even with the mark", async () => {
      const mark = `run-${randomId()}`;
      const module = JSON.stringify(new URL("process-tree.ts", import.meta.url).href);
      // A marked shell starts a marked Node that ends the mark. An unrelated marked process is ended; these two survive
      // as ancestors.
      const program = `const { terminateTree } = await import(${module}); console.log(JSON.stringify(await terminateTree({ mark: ${JSON.stringify(mark)}, graceMs: 100 })));`;
      const output = await collect({
        mark,
        script: `setsid sleep 600 & sleep 0.1; "$NODE" --input-type=module -e "$PROGRAM"; echo still here`,
        env: { NODE: process.execPath, PROGRAM: program },
      });
      expect(output.trim().split("\n")).toEqual(['{"ended":1,"supported":true}', "still here"]);
    });
  });

  test("without a process nothing is done", async () => {
    expect((await terminateTree({ mark: `run-${randomId()}` })).ended).toBe(0);
  });

  function unreachable(): never {
    throw new Error("the process is gone");
  }

  function isAlive(pid: number): boolean {
    return readProcess(pid) !== null;
  }

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await pause(5);
  }

  /** Starts a shell and waits until `count` pids were written by it and its children. */
  async function startTree(params: {
    readonly mark: string;
    readonly script: string;
    readonly count: number;
  }): Promise<readonly number[]> {
    const child = spawn("sh", ["-c", params.script], {
      env: { ...process.env, HOLDFAST_MARK: params.mark },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    onTestFinished(() => terminateTree({ mark: params.mark, graceMs: 20 }).then(() => undefined));
    const pids: number[] = [];
    let text = "";
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      text += String(chunk);
      pids.splice(0, pids.length, ...text.split("\n").filter(Boolean).map(Number));
      if (pids.length === params.count && text.endsWith("\n")) break;
    }
    return pids;
  }

  async function collect(params: {
    readonly mark: string;
    readonly script: string;
    readonly env: Readonly<Record<string, string>>;
  }): Promise<string> {
    const child = spawn("sh", ["-c", params.script], {
      env: { ...process.env, ...params.env, HOLDFAST_MARK: params.mark },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let text = "";
    for await (const chunk of child.stdout.setEncoding("utf8")) text += String(chunk);
    return text;
  }
});

describe("process targets", () => {
  const process = (pid: number, parent: number, mark: string | null = null, started = "1"): ProcessEntry => ({
    pid,
    parent,
    group: null,
    session: null,
    mark,
    supervisor: null,
    started,
  });

  function pidsOf(
    processes: readonly ProcessEntry[],
    seen: readonly ProcessTarget[] = [],
    spared: readonly number[] = [1],
  ) {
    const targets = findTargets({
      processes,
      mark: "run",
      seen: new Map(seen.map((target) => [target.entry.pid, target])),
      spared: new Set(spared),
    });
    return targets.map((target) => target.entry.pid).toSorted((a, b) => a - b);
  }

  test("are marked processes, their descendants, and all that they started, at any depth", () => {
    const processes = [
      process(20, 12),
      process(12, 11),
      process(11, 10),
      process(10, 1, "run/1/a"),
      process(13, 1, "run"),
      process(14, 1, "run2/1/a"),
      process(15, 1, "other"),
      process(16, 13, "inner/1/b"),
    ];
    expect(pidsOf(processes)).toEqual([10, 11, 12, 13, 16, 20]);
  });

  test("spared processes are spared, and their children are judged by their own mark", () => {
    const processes = [process(10, 1, "run"), process(11, 10, "run"), process(12, 10), process(13, 11)];
    expect(pidsOf(processes, [], [1, 10])).toEqual([11, 13]);
  });

  test("a process stays a target without parent or mark; a later process with its pid is not one", () => {
    const seen: ProcessTarget[] = [{ entry: process(10, 9, null, "5"), foundBy: "parent" }];
    expect(pidsOf([process(10, 1, null, "5")], seen)).toEqual([10]);
    expect(pidsOf([process(10, 1, null, "6")], seen)).toEqual([]);
  });

  test("from `ps` also all members of their groups and of named groups; the group of an ancestor is the user's", () => {
    const inGroup = (pid: number, parent: number, group: number, mark: string | null = null): ProcessEntry => ({
      ...process(pid, parent, mark),
      group,
    });
    const processes = [
      inGroup(5, 1, 5),
      inGroup(6, 5, 6, "run"),
      // A program of the system shows no mark and has lost its parent, but not its group.
      inGroup(7, 1, 6),
      inGroup(8, 7, 8),
      inGroup(9, 1, 8),
      inGroup(10, 1, 40),
      inGroup(11, 5, 5, "run"),
      inGroup(12, 5, 5),
    ];
    const targets = findTargets({
      processes,
      mark: "run",
      seen: new Map(),
      spared: new Set([1, 5]),
      groups: new Set([40]),
    });
    expect(targets.map(({ entry }) => entry.pid).toSorted((a, b) => a - b)).toEqual([6, 7, 8, 9, 10, 11]);
  });

  test("also all members of their sessions, after the leader has ended; not of a session that the user leads", () => {
    const inSession = (pid: number, parent: number, session: number, mark: string | null = null): ProcessEntry => ({
      ...process(pid, parent, mark),
      group: pid,
      session,
    });
    const processes = [
      inSession(5, 1, 5),
      // The leader 6 has ended. Its session is known by a marked member.
      inSession(7, 1, 6, "run"),
      inSession(8, 1, 6),
      inSession(9, 8, 9),
      // Nothing but an earlier look shows the session 30.
      inSession(10, 1, 30),
      // The leaders 40 and 5 are alive and not of the run.
      inSession(40, 1, 40),
      inSession(41, 40, 40, "run"),
      inSession(42, 1, 40),
      inSession(12, 5, 5, "run"),
      inSession(13, 5, 5),
      // An earlier look found the number 50, which another process has by now.
      inSession(50, 1, 50),
      inSession(51, 1, 50),
    ];
    const params = { processes, mark: "run", seen: new Map(), spared: new Set([1, 5]) };
    const targets = findTargets({ ...params, groups: new Set([5]), numbers: new Set([30, 50]) });
    expect(targets.map(({ entry }) => entry.pid).toSorted((a, b) => a - b)).toEqual([7, 8, 9, 10, 12, 41]);
    expect([...numbersOf(targets, processes)].toSorted((a, b) => a - b)).toEqual([6, 7, 8, 9, 10, 12, 30, 41]);
  });

  test("only unrelated processes are not read again", () => {
    const live = [process(5, 1), process(6, 1, "run"), process(7, 6), process(8, 1, "other/1/a"), process(9, 1)];
    const targets: ProcessTarget[] = [
      { entry: process(6, 1, "run"), foundBy: "mark" },
      { entry: process(7, 6), foundBy: "parent" },
    ];
    const doubts = [
      { pid: 9, why: "blank 1" },
      { pid: 10, why: "vanished" },
    ];
    expect([...unrelatedProcesses({ live, doubts }, targets).keys()]).toEqual([5, 8]);
  });
});

import type { ChildProcess } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type BuiltCommand, type Finished, buildCommand } from "@holdfast/test-support/built-command";
import { workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../open.ts";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { statusWord } from "@holdfast/core/status";
import type { RunOverview } from "../../holdfast.ts";
import { gitIn } from "./demo-repository.ts";

describe("loops", () => {
  let holdfast: BuiltCommand;
  beforeAll(async () => {
    holdfast = await buildCommand();
  }, 60_000);
  afterAll(() => holdfast.remove());

  /** A repository, and an agent that waits until the test releases it, then does its task. */
  async function scene() {
    const root = join(holdfast.directory, `loops-${(scenes += 1)}`);
    const cwd = join(root, "repo");
    mkdirSync(cwd, { recursive: true });
    const git = gitIn(cwd, { PATH: process.env["PATH"] ?? "", HOME: root, GIT_CONFIG_NOSYSTEM: "1" });
    await git("init", "-q", "-b", "main");
    await git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first", "--allow-empty");
    await git("config", "user.name", "A");
    await git("config", "user.email", "a@example.com");
    const agent = join(root, "agent.sh");
    writeFileSync(
      agent,
      `#!/bin/sh\ntouch "${root}/called-$(basename "$PWD")"\nwhile [ ! -e "${root}/go" ]; do sleep 0.05; done\necho x >> out.txt\necho said\n`,
    );
    chmodSync(agent, 0o755);
    const words = (task: string) => [
      "--workflow",
      "ralph",
      "--task",
      task,
      "--until",
      "test -e out.txt",
      "--no-first-check",
      "--agent",
      `command:${agent}`,
      "--yolo",
    ];
    const run = (...args: readonly string[]) => holdfast.run(args, { cwd });
    const start = (...args: readonly string[]) => {
      const child = holdfast.start(args, { cwd });
      onTestFinished(() => void child.kill("SIGKILL"));
      return { child, ended: endOf(child) };
    };
    const slots = async (): Promise<RunOverview["slots"]> => {
      const { stdout, stderr } = await run("--json", "status");
      expect(stderr).toBe("");
      return JSON.parse(stdout).slots;
    };
    const tasks = async (): Promise<readonly unknown[]> => {
      await using here = await openHoldfast({ cwd });
      return (await here.statuses({ workflow: "ralph" })).map((one) => one.run.work);
    };
    const until = async (task: string, ...expected: readonly [kind: string, word?: string]): Promise<RunWithStatus> => {
      const [kind, word] = expected;
      await using here = await openHoldfast({ cwd });
      for (;;) {
        const all = await here.statuses({ workflow: "ralph" });
        const found = all.find((one) => one.run.work.kind === "task" && one.run.work.text === task);
        if (found?.status.kind === kind && (word === undefined || statusWord(found.status) === word)) return found;
        await sleep(30);
      }
    };
    const called = async (id: string): Promise<void> => {
      while (!existsSync(join(root, `called-${id}`))) await sleep(30);
    };
    const go = (): void => writeFileSync(join(root, "go"), "");
    return { root, cwd, words, run, start, slots, tasks, until, called, go };
  }
  let scenes = 0;

  function endOf(child: ChildProcess): Promise<Finished> {
    let [stdout, stderr] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    return new Promise((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  }

  describe("the limit", () => {
    test("of three loops that start at once one works, the others name it; --wait waits by priority, --force ignores the limit", async () => {
      const { words, start, run, slots, tasks, until, go } = await scene();
      const begun = ["one", "two", "three"].map((task) => ({
        task,
        ...start("run", ...words(task), "--max-loops", "1"),
      }));
      const lost = await Promise.all(
        begun.map(
          async (one) => await Promise.race([one.ended.then((end) => ({ ...one, end })), until(one.task, "running")]),
        ),
      );
      const refused = lost.flatMap((one) => ("end" in one ? [one] : []));
      expect(refused).toHaveLength(2);
      const winner = begun.find((one) => !refused.some(({ task }) => task === one.task));
      for (const { end } of refused) {
        expect(end.status).toBe(5);
        expect(end.stderr).toMatch(new RegExp(`1 of 1 in use, by .*\\(pid ${winner?.child.pid} on`));
        expect(end.stderr).toContain("--wait");
      }
      expect(await tasks()).toEqual([{ kind: "task", text: winner?.task }]);
      const low = start("run", ...words("low"), "--wait", "--max-loops", "1");
      expect(await until("low", "queued")).toMatchObject({ status: { position: 1 } });
      const high = start("run", ...words("high"), "--wait", "--priority", "high", "--max-loops", "1");
      expect(await until("high", "queued")).toMatchObject({ status: { position: 1 }, priority: 10 });
      expect((await run("status")).stdout).toMatch(/queued: 1[^]*queued: 2/);
      const late = await until("low", "queued");
      expect((await run("resume", late.run.id, "--priority", "50")).stdout).toContain("now has priority 50");
      expect((await run("status", late.run.id)).stdout).toContain("queued: 1");
      expect((await run("resume", late.run.id, "--priority", "low")).stdout).toContain("now has priority low");
      expect((await run("status", late.run.id)).stdout).toContain("queued: 2");
      const over = start("run", ...words("over"), "--force", "--max-loops", "1");
      await until("over", "running");
      expect(await slots()).toEqual({ limit: 4, used: 2 });
      go();
      expect((await over.ended).stdout).toContain("Over the limit of 1 loops");
      const ends = await Promise.all([winner?.ended, high.ended, low.ended]);
      expect(ends.map((end) => end?.status)).toEqual([0, 0, 0]);
      const beganAt = async (task: string): Promise<string | undefined> =>
        (await until(task, "done")).run.latest?.createdAt;
      expect(Date.parse((await beganAt("high")) ?? "")).toBeLessThan(Date.parse((await beganAt("low")) ?? ""));
      expect(ends[1]?.stdout).toContain("Waiting for a slot");
    });
  });

  describe("signals", () => {
    test("paused at the next safe point, resumed, paused immediately; killed, it is crashed, and its pause remains", async () => {
      const { words, start, run, until, called, go, root } = await scene();
      const first = start("run", ...words("it"));
      const { run: summary } = await until("it", "running");
      await called(summary.id);
      const pausing = start("stop", summary.id, "--after-step", "--reason", "lunch");
      for (;;) {
        const shown = (await run("status")).stdout;
        if (shown.includes("running: pausing")) break;
      }
      expect(existsSync(join(root, "go"))).toBe(false);
      // The pause is withdrawn before the agent's call has ended.
      expect((await run("resume", summary.id)).stdout).toContain("continues: it had not paused yet");
      expect((await until("it", "running")).status).toMatchObject({ stopping: null });
      expect((await pausing.ended).stdout).toContain("continues: the signal was withdrawn");
      const now = await run("stop", summary.id, "--reason", "lunch");
      expect(now.stdout).toMatch(/^Paused .*Saved as .*@\d+\.\n$/);
      expect(await first.ended).toMatchObject({ status: 7 });
      expect((await run("status", summary.id)).stdout).toMatch(/ paused\n/);
      rmSync(join(root, `called-${summary.id}`));
      const second = start("resume", summary.id);
      // Until its journal shows it, a resumed run still has the status paused.
      await called(summary.id);
      second.child.kill("SIGKILL");
      expect(await until("it", "crashed")).toMatchObject({ resumable: true });
      expect((await run("stop", summary.id, "--after-step")).stdout).toContain("Paused");
      expect(await until("it", "paused")).toMatchObject({ resumable: true });
      go();
      expect(await run("resume", summary.id)).toMatchObject({ status: 0 });
      expect((await run("stop", summary.id, "--after-step")).status).toBe(4);
    });

    test("aborted, with its work kept and the reason; only --force from a checkpoint resumes it", async () => {
      const { words, start, run, until, called, go } = await scene();
      const first = start("run", ...words("it"));
      const { run: summary } = await until("it", "running");
      await called(summary.id);
      expect((await run("stop", summary.id, "--now", "--reason", "by hand")).stdout).toMatch(/^Aborted .*Saved as/);
      expect((await first.ended).stdout).toMatch(/aborted by \S+: by hand/);
      const refused = await run("resume", summary.id);
      expect([refused.status, refused.stderr]).toEqual([1, expect.stringMatching(/aborted by \S+: by hand/)]);
      expect((await run("list")).stdout).toContain("aborted");
      go();
      const again = await run("resume", `${summary.id}@1`, "--force");
      expect(again.status, again.stderr).toBe(0);
      await until("it", "done");
    });

    test("a process that is stopped is shown as suspended until it continues, or until `stop` continues and ends it", async () => {
      const { words, start, run, until, called } = await scene();
      const first = start("run", ...words("it"));
      await until("it", "running");
      first.child.kill("SIGSTOP");
      expect(await until("it", "running", "running: suspended")).toMatchObject({ resumable: false });
      expect((await run("status")).stdout).toContain("running: suspended");
      first.child.kill("SIGCONT");
      const { run: summary } = await until("it", "running", "running");
      await called(summary.id);
      first.child.kill("SIGSTOP");
      await until("it", "running", "running: suspended");
      const pause = start("stop", summary.id, "--after-step");
      let shown = "";
      pause.child.stderr?.on("data", (text: string) => (shown += text));
      while (!shown.includes(`kill -CONT ${first.child.pid}`)) await sleep(30);
      pause.child.kill("SIGTERM");
      const stored = `Terminated, but the signal to ${summary.id} is stored and stays in effect.`;
      expect(await pause.ended).toMatchObject({ status: 143, stderr: expect.stringContaining(stored) });
      const stopped = await run("stop", summary.id);
      expect([stopped.status, stopped.stdout], stopped.stderr).toEqual([0, expect.stringMatching(/^Stopped /)]);
      await first.ended;
    });
  });

  describe("in the background", () => {
    test("it continues when its starter exits, and logs show its output", async () => {
      const { words, run, until, go } = await scene();
      const started = await run("run", ...words("it"), "--detach");
      expect(started.status, started.stderr).toBe(0);
      const { run: summary, status } = await until("it", "running");
      const pid = status.kind === "running" ? status.holder.pid : null;
      expect(started.stdout).toBe(`Running in the background: ${summary.id} (pid ${pid})\n`);
      go();
      await until("it", "done");
      expect((await run("output", summary.id, "--step", "console")).stdout).toContain("Done");
    });

    test("a reason that it cannot start is reported immediately", async () => {
      const { words, start, run, until, go } = await scene();
      const first = start("run", ...words("it"));
      await until("it", "running");
      const full = await run("run", ...words("other"), "--max-loops", "1", "--detach");
      expect(full.status).toBe(5);
      expect(full.stderr).toContain("must wait for a slot: 1 of 1 in use");
      const log = /(\/\S+0-console\.log)/.exec(full.stderr)?.[1] ?? "";
      expect(readFileSync(log, "utf8")).toContain("must wait for a slot: 1 of 1 in use");
      go();
      expect(await first.ended).toMatchObject({ status: 0 });
    });
  });
});

describe("ralph", () => {
  const bench = workSuite();

  const write = (text: string, iteration?: number) => ({
    ...(iteration === undefined ? {} : { when: { iteration } }),
    edits: [{ do: "write", path: "answer.txt", text }],
    reply: "There.",
    usage: { input: 800, output: 200, microUsd: 5000 },
  });
  /** Prints as a test runner does. */
  const UNTIL =
    'n=$(cat answer.txt 2>/dev/null || echo 0); echo "Tests  $((9 - n)) failed | $n passed (9)"; test $n = 9';

  test("a loop at its limit reports it, is not started twice, and continues when the limit is raised", async () => {
    const place = await bench.begin();
    const agent = await place.agent([write("5\n", 1), write("3\n", 2), write("9\n")]);
    const words = [
      "run",
      "--workflow",
      "ralph",
      "--task",
      "Reach nine",
      "--until",
      UNTIL,
      "--max",
      "2",
      "--agent",
      agent,
      "--mode",
      "logged",
    ];
    const limited = await place.run(...words);
    expect(limited.status).toBe(1);
    const [, run = ""] = /^Failed: limit reached (ralph-reach-nine-[0-9a-f]{8}):/m.exec(limited.stdout) ?? [];
    expect(limited.stdout).toContain(`Allow more: holdfast resume ${run} --max N`);
    expect(limited.stdout).toContain(`git merge holdfast/${run}`);

    const shown = await place.run("status", run);
    expect(shown.stdout).toMatch(new RegExp(`^${run}  failed: limit reached$`, "m"));
    expect(shown.stdout).toMatch(/^loop +iteration 2 of 2 {2}✗✗$/m);
    expect(shown.stdout).toMatch(/^measured +6 of 9 tests fail, quality \d+$/m);
    expect(shown.stdout).toMatch(/^best +iteration 1, quality \d+$/m);
    expect(await place.json("status", run)).toMatchObject({
      run: {
        loop: { loop: run, maxIterations: 2, best: { iteration: 1 }, iterations: [{ tests: { passed: 5 } }, {}] },
      },
    });

    const refused = await place.run("resume", run);
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining(`holdfast resume ${run} --max N`)]);
    const done = await place.run("resume", run, "--max", "3");
    expect(done.stdout).toMatch(/^Done .*passes after 3 iterations/m);
    expect(done.status).toBe(0);
    // The workflow has no transition out of the limit; the record is valid anyway.
    expect(await place.json("replay", run)).toMatchObject({ verdict: "identical", outcome: "done", iteration: 3 });

    // A finished run stays finished. A user who names an older checkpoint wants to go back, and the hint explains how.
    const before = (await place.json("list", run)).checkpoints.length;
    const back = await place.run("resume", `${run}@3`);
    expect([back.status, back.stderr]).toEqual([
      4,
      expect.stringMatching(/is done since .* checkpoint 3 only with --force/),
    ]);
    expect(back.stderr).toContain(`holdfast fork ${run}@3`);
    expect(back.stderr).toContain(`holdfast resume ${run}@3 --force`);
    expect((await place.json("list", run)).checkpoints).toHaveLength(before);
    expect(await place.run("resume", `${run}@latest`)).toMatchObject({ status: 0 });

    // The same words are the same loop, also when it has ended; --again is another one.
    expect((await place.json(...words, "--dry-run")).plan).toMatchObject({ id: run, earlier: { id: run } });
    const { plan } = await place.json(...words, "--dry-run", "--again");
    expect(plan).toMatchObject({ id: expect.not.stringMatching(run), earlier: null });
  });

  test("while it waits for an answer it is unfinished: the same command does not start it again", async () => {
    const place = await bench.begin();
    const agent = await place.agent([write("1\n")]);
    const words = [
      "run",
      "--workflow",
      "ralph",
      "--task",
      "Ask",
      "--until",
      "sh -c nothing-of-this-name",
      "--agent",
      agent,
    ];
    const waiting = await place.run(...words);
    expect([waiting.status, waiting.stdout]).toEqual([
      4,
      expect.stringMatching(/holdfast approve ralph-ask-\w+ continue\n +or: holdfast approve ralph-ask-\w+ stop/),
    ]);
    const again = await place.run(...words);
    expect([again.status, again.stderr]).toEqual([4, expect.stringContaining("This work already has a run")]);
    expect((await place.run(...words, "--resume")).status).toBe(4);
  });
});

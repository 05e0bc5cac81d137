import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inTurn, makeBench, writes } from "./bench.ts";

test.concurrent("iterates until the check passes, without a forge or a remote; the work is on its own branch", async () => {
  await using bench = await makeBench({
    answers: [
      writes("40\n", { when: { iteration: 1 }, reply: "I tried 40.\n\n## Learnings\n- The answer is even.\n" }),
      ...inTurn("41\n", "41\n", "42\n").slice(1),
    ],
  });
  expect(await bench.work()).toMatchObject({
    kind: "done",
    reason: expect.stringMatching(/passes after 3 iterations/),
  });
  expect(await bench.trail()).toEqual([
    "begin:begun",
    "iterate:iterated",
    "verify:verify_fail",
    "reflect:again",
    "iterate:iterated",
    "verify:verify_fail",
    "reflect:again",
    "iterate:iterated",
    "verify:verify_pass",
    "reflect:criterion_met",
    "publish:published",
  ]);
  expect(bench.run()).toMatch(/^ralph-write-the-[0-9a-f]{8}$/);
  expect(await bench.calls()).toBe(3);
  expect((await bench.git("clone", "log", "--format=%s", `main..holdfast/${bench.run()}`)).split("\n")).toEqual([
    "Iteration 3: Write the answer",
    "Iteration 2: Write the answer",
    "Iteration 1: Write the answer",
  ]);
  expect(await bench.git("clone", "show", `holdfast/${bench.run()}:answer.txt`)).toBe("42");
  expect(await bench.read(".tmp/ralph-prompt-1.md")).toContain("    grep: answer.txt: No such file");
  const second = (await bench.read(".tmp/ralph-prompt-2.md")) ?? "";
  expect(second).toContain("The answer is even.");
  expect(second).toContain("grep -q 42 answer.txt");
  expect((await bench.state()).refused).toEqual([]);
  // The files for other tools are beside the store: the repository had none of them.
  expect(await bench.git("clone", "status", "--porcelain", "--ignored")).toBe("");
  const loops = join(bench.clone, ".git/holdfast/layouts/.aiwg/ralph/loops");
  expect(readdirSync(join(loops, bench.run()))).toEqual(["checkpoints", "reflection-memory.json", "state.json"]);
  await bench.holdfast.removeRun(await bench.holdfast.planRemoval(bench.run()), { by: "tester", force: true });
  expect(readdirSync(loops)).toEqual([]);
});

test.concurrent("each iteration has one checkpoint of its own kind, with its reflection in it", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n") });
  await bench.work();
  const all = await bench.holdfast.store.listCheckpoints({ run: bench.run() });
  const own = all.filter(({ trigger }) => trigger === "iteration").toReversed();
  const numbers = await Promise.all(
    own.map(async ({ run, sequence }) => {
      const { planes } = await bench.holdfast.store.getCheckpoint({ run, sequence });
      return planes.context.values["totals"];
    }),
  );
  expect(numbers).toMatchObject([{ iterations: 1 }, { iterations: 2 }, { iterations: 3 }]);
});

test.concurrent("a check that passes before any work is done without a call; this can be switched off", async () => {
  const files = { "answer.txt": "42\n" };
  await using bench = await makeBench({ answers: inTurn("42!\n"), files });
  expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("passes already") });
  expect([await bench.calls(), await bench.trail()]).toEqual([0, ["begin:criterion_pass"]]);
  await using eager = await makeBench({ answers: inTurn("42!\n"), files, options: { firstCheck: false } });
  expect(await eager.work()).toMatchObject({ kind: "done" });
  expect(await eager.calls()).toBe(1);
});

test.concurrent("a check that cannot be run is asked about before a token is spent", async () => {
  const options = { until: "sh -c 'no-such-program-here --check'" };
  await using bench = await makeBench({ answers: inTurn("42\n"), options });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you", reason: expect.stringContaining("127") });
  await bench.answer("stop");
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("Stopped by the user") });
  expect(await bench.calls()).toBe(0);
  // A script that the work is to bring.
  const brings = {
    edits: [{ do: "write", path: "check.sh", text: "#!/bin/sh\nexit 0\n", mode: "755" }],
    reply: "There it is.",
  };
  await using later = await makeBench({ answers: [brings], options: { until: "./check.sh" } });
  expect(await later.work()).toMatchObject({ kind: "waiting" });
  await later.answer("continue");
  expect(await later.work()).toMatchObject({ kind: "done" });
});

test.concurrent("all of several commands must pass, and each is reported", async () => {
  const until = ["grep -q 4 answer.txt", "grep -q 2 answer.txt", "echo seen > seen.txt"];
  await using bench = await makeBench({ answers: inTurn("4\n", "42\n"), options: { until } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const [first] = (await bench.state()).iterations;
  expect(first).toMatchObject({ verdict: "failed" });
  expect(first?.quality).toBeCloseTo(66.667);
  // What a passing command has changed is part of the work.
  expect(await bench.git("clone", "show", `holdfast/${bench.run()}:seen.txt`)).toBe("seen");
});

test.concurrent("a command that takes too long is ended, and counts as failed", async () => {
  const until = [{ command: "grep -q 42 answer.txt || sleep 600", timeoutMs: 10_000 }];
  await using bench = await makeBench({ answers: inTurn("1\n", "42\n"), options: { until, firstCheck: false } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).iterations.map(({ verdict }) => verdict)).toEqual(["failed", "passed"]);
});

test.concurrent("an agent that fails costs an iteration, and the check runs all the same", async () => {
  const fails = { ...writes("42\n"), exit: 3 };
  await using bench = await makeBench({ answers: [fails] });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).iterations).toMatchObject([{ outcome: "failed", verdict: "passed" }]);
});

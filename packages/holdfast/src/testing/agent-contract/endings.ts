import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import {
  appears,
  assertGone,
  call,
  failedWith,
  killAll,
  NEEDS_PROC,
  prepareCall,
  processesOf,
  type AgentCase,
} from "./harness.ts";

const UP = { path: "up", text: "up\n" };

export const endingCases: readonly AgentCase[] = [
  {
    name: "an abort in the middle is interrupted, with nothing left running",
    async run(harness) {
      const { task, abort } = prepareCall(harness, { model: await harness.behave({ write: UP, hang: true }) });
      const running = harness.agent.run(task);
      await appears(harness, "up");
      abort();
      assert.equal(failedWith(await running, "interrupted").instant, false);
      assertGone(task.mark);
    },
  },
  {
    name: "an abort from before starts nothing",
    async run(harness) {
      const { outcome } = await call(harness, { write: UP, reply: "ok" }, { signal: AbortSignal.abort() });
      failedWith(outcome, "interrupted");
      assert.equal(existsSync(join(harness.cwd, "up")), false);
    },
  },
  {
    name: "no sign of life for the given time is a hang",
    async run(harness) {
      const { outcome } = await call(harness, { write: UP, hang: true }, { idleMs: 700 });
      assert.equal(failedWith(outcome, "hang").instant, false);
    },
  },
  {
    name: "an agent that takes longer than that but says something now and then is no hang",
    async run(harness) {
      // Long enough for an agent to start on a busy machine.
      const idleMs = Math.max(10_000, 2500 * (harness.slowness ?? 1));
      const chatter = { lines: (1.2 * idleMs) / 100, everyMs: 100 };
      const { outcome } = await call(harness, { chatter, reply: "ok" }, { idleMs });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
    },
  },
  {
    name: "the time limit holds also for one that talks all the time",
    async run(harness) {
      const { outcome } = await call(harness, { chatter: { lines: 100_000, everyMs: 20 } }, { timeoutMs: 600 });
      failedWith(outcome, "timeout");
    },
  },
  {
    name: "killed from outside is killed",
    skip: NEEDS_PROC,
    async run(harness) {
      const { task } = prepareCall(harness, { model: await harness.behave({ write: UP, hang: true }) });
      const running = harness.agent.run(task);
      await appears(harness, "up");
      killAll(task.mark);
      failedWith(await running, "killed");
    },
  },
  {
    name: "what a successful call leaves behind is gone when it returns, and writes nothing later",
    skip: NEEDS_PROC,
    async run(harness) {
      const { outcome } = await call(harness, { orphan: { path: "late", afterMs: 1500 }, reply: "ok" });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
      const wasWritten = existsSync(join(harness.cwd, "late"));
      await pause(wasWritten ? 0 : 600);
      assert.equal(existsSync(join(harness.cwd, "late")), wasWritten);
    },
  },
  {
    name: "an abort reaches what has left the agent's session",
    skip: NEEDS_PROC,
    async run(harness) {
      const behaviour = { orphan: { path: "late", afterMs: 60_000 }, hang: true };
      const { task, abort } = prepareCall(harness, { model: await harness.behave(behaviour) });
      const running = harness.agent.run(task);
      while (processesOf(task.mark).length < 2) await pause(20);
      abort();
      failedWith(await running, "interrupted");
      assertGone(task.mark);
    },
  },
  {
    name: "two calls at once: the end of one leaves the other alone",
    async run(harness) {
      const model = await harness.behave({ chatter: { lines: 12, everyMs: 100 }, write: UP, reply: "ok" });
      const first = prepareCall(harness, { model });
      const second = prepareCall(harness, { model });
      const both = Promise.all([harness.agent.run(first.task), harness.agent.run(second.task)]);
      await appears(harness, "up");
      first.abort();
      const [stopped, finished] = await both;
      failedWith(stopped, "interrupted");
      assert.equal(finished.kind, "completed", JSON.stringify(finished));
    },
  },
];

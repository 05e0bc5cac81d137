import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { call, failedWith, prepareCall, type AgentCase } from "./harness.ts";

export const outcomeCases: readonly AgentCase[] = [
  {
    name: "a call that succeeds: files edited, the last words as text, every line an event",
    async run(harness) {
      const written = { path: "made.txt", text: "by the agent\n" };
      const { outcome, events } = await call(harness, { write: written, reply: "All done, é ✓" });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
      assert.match(outcome.text, /All done, é ✓/);
      assert.equal(readFileSync(join(harness.cwd, "made.txt"), "utf8"), "by the agent\n");
      assert.ok(events.some((event) => event.kind === "raw" && event.line.includes("All done, é ✓")));
      assert.ok(events.some((event) => event.kind === "text" && event.text.includes("All done, é ✓")));
    },
  },
  {
    name: "what the agent does not say about its usage is null, which is not zero",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "ok" });
      assert.deepEqual(outcome.usage, { inputTokens: null, outputTokens: null, microUsd: null });
    },
  },
  {
    name: "a usage of zero is zero, and what was spent before a crash is told",
    skip: (agent) => (agent.capabilities.usage ? null : "the agent does not tell its usage"),
    async run(harness) {
      const free = await call(harness, { reply: "ok", usage: { input: 0, output: 0, microUsd: 0 } });
      const { cachedTokens = 0, ...usage } = free.outcome.usage;
      assert.deepEqual({ cachedTokens, ...usage }, { cachedTokens: 0, inputTokens: 0, outputTokens: 0, microUsd: 0 });
      const crashed = await call(harness, { usage: { input: 70, output: 7, microUsd: 900 }, reply: "x", exit: 3 });
      failedWith(crashed.outcome, "crash");
      assert.equal(crashed.outcome.usage.inputTokens, 70);
      const price = harness.priceOf?.({ input: 70, output: 7 }) ?? 900;
      assert.equal(crashed.outcome.usage.microUsd, harness.agent.capabilities.cost ? price : null);
      assert.ok(crashed.events.some((event) => event.kind === "usage" && event.tokens === 77));
    },
  },
  {
    name: "an exit that is not zero is a crash, whatever was printed before",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "looks fine", exit: 3 });
      assert.equal(failedWith(outcome, "crash").until, null);
    },
  },
  {
    name: "a program or script that is not there is missing, and the hint says what to do",
    async run(harness) {
      for (const model of [harness.missingModel, null]) {
        const { task } = prepareCall(harness, { model });
        const failed = failedWith(await harness.agent.run(task), "missing");
        assert.ok(failed.hint !== null && failed.hint !== "");
      }
    },
  },
  {
    name: "a worktree that is not there is a failure, not an exception",
    async run(harness) {
      const { task } = prepareCall(harness, {
        model: await harness.behave({ reply: "ok" }),
        cwd: "/nonexistent/place",
      });
      const outcome = await harness.agent.run(task);
      assert.equal(outcome.kind, "failed");
      assert.match(outcome.kind === "failed" ? outcome.message : "", /nonexistent/);
    },
  },
  {
    name: "a prompt of five megabytes that nobody reads harms nobody",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "ok" }, { prompt: "é".repeat(2_500_000) });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
    },
  },
  {
    name: "a listener that throws does not cost the call",
    async run(harness) {
      const onEvent = (): never => {
        throw new Error("a careless listener");
      };
      const { outcome } = await call(harness, { reply: "ok" }, { onEvent });
      assert.equal(outcome.kind, "completed");
    },
  },
  {
    name: "a session is told, as an event and in the outcome, exactly where the agent can go on with one",
    async run(harness) {
      const first = await call(harness, { reply: "one" });
      if (!harness.agent.capabilities.resume) {
        assert.equal(first.outcome.session, null);
        return;
      }
      const { session } = first.outcome;
      assert.ok(session !== null && session !== "");
      assert.ok(first.events.some((event) => event.kind === "session" && event.id === session));
      const second = await call(harness, { reply: "two" }, { session });
      assert.equal(second.outcome.session, session);
      const crashed = await call(harness, { reply: "three", exit: 3 }, { session });
      assert.equal(failedWith(crashed.outcome, "crash").session, session);
    },
  },
  {
    name: "a probe answers without doing any work",
    async run(harness) {
      assert.match(harness.agent.name, /^[a-z][a-z0-9-]*$/);
      const probe = await harness.agent.probe();
      assert.equal(probe.installed, true, probe.problem ?? "");
      assert.equal(probe.problem, null);
    },
  },
];

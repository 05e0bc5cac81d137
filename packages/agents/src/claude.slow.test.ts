import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { AgentEvent, AgentOutcome, AgentTask, AgentUsage } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import type { ModelScript, ModelTool, ModelUsage } from "@holdfast/test-support/agents/model-script";
import {
  READS_OUR_ENVIRONMENT,
  killAgent,
  modelServerHarness,
  runAgentContract,
  withEnvironment,
} from "@holdfast/test-support/agents/real-agent-suite";
import { MODEL, REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import { type AgentHarness, appears, assertGone, prepareCall, processesOf } from "@holdfast/testing/agent-contract";
import { createClaudeAgent, locateTranscript, readAppended } from "./claude.ts";

describe("claude", () => {
  const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";
  const real = test.skipIf(REAL_CLAUDE.kind === "absent").concurrent;

  const write = (file_path: string, content: string): ModelTool => ({ name: "Write", input: { file_path, content } });
  const bash = (command: string): ModelTool => ({ name: "Bash", input: { command, description: "as scripted" } });
  const says = (text: string) => ({ match: new RegExp(text), steps: [{ text: `${text}, said` }] });

  async function open(script: ModelScript, later: Later) {
    const scene = await openClaudeScene({ script, later });
    const start = (change: Partial<AgentTask>) => {
      const call = prepareCall(scene, { model: MODEL, ...change });
      return { ...call, outcome: scene.agent.run(call.task) };
    };
    const run = async (change: Partial<AgentTask>) => {
      const call = start(change);
      const outcome = await call.outcome;
      assertGone(call.task.mark);
      return { ...call, outcome };
    };
    return { ...scene, start, run };
  }

  type Later = (undo: () => void | Promise<void>) => void;

  /** Resolves when a matching line is printed. */
  function sight(pattern: RegExp): { readonly promise: Promise<void>; onEvent(event: AgentEvent): void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    return { promise, onEvent: (event) => event.kind === "raw" && pattern.test(event.line) && resolve() };
  }

  /**
   * A piece of an answer of the main conversation. Raw events hide the text of pieces, because a secret could be split
   * across them.
   */
  const STREAMED = /^(?=.*"text_delta")(?=.*"parent_tool_use_id":null)/;

  function transcripts(env: AgentTask["env"]): string {
    const folder = join(env["CLAUDE_CONFIG_DIR"] ?? "", "projects");
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
    return names.map((name) => readFileSync(join(folder, name), "utf8")).join("");
  }

  function tokensOf({ usage }: AgentOutcome): Pick<AgentUsage, "inputTokens" | "outputTokens"> {
    return { inputTokens: usage.inputTokens, outputTokens: usage.outputTokens };
  }

  function tokensSent(usage: ModelUsage): ReturnType<typeof tokensOf> {
    return { inputTokens: usage.input + usage.cacheRead + usage.cacheWrite, outputTokens: usage.output };
  }

  const MIXED: Partial<ModelUsage> = { input: 70, cacheRead: 11, cacheWrite: 13, output: 7 };

  describe(`the real Claude Code, killed and resumed${why}`, () => {
    real(
      "in the middle of a tool call: none of its processes continue, the same session finishes, every token is counted",
      async ({ onTestFinished }) => {
        const { cwd, env, server, start, run } = await open({ rules: [] }, onTestFinished);
        server.play({
          rules: [
            {
              match: /begin/,
              steps: [
                { text: "First.", tool: write(join(cwd, "a.txt"), "one\n"), usage: MIXED },
                { tool: bash("touch up; sleep 30; touch late; sleep 300") },
              ],
            },
            { match: /finish it now/, steps: [{ tool: bash("echo two >> a.txt") }, { text: "Finished." }] },
          ],
        });
        const killed = start({ prompt: "begin" });
        await appears({ cwd }, "up");
        // Claude Code writes the call to its transcript a little later than it starts the tool.
        while (!transcripts(env).includes("sleep 300")) await pause(10);
        expect(processesOf(killed.task.mark).length).toBeGreaterThan(1);
        killAgent(killed.task.mark);
        const first = await killed.outcome;
        assertGone(killed.task.mark);
        expect(first).toMatchObject({ kind: "failed", cause: "killed", instant: false });
        expect(tokensOf(first)).toEqual(tokensSent(server.sent()));
        expect(existsSync(join(cwd, "late"))).toBe(false);

        const { session } = first;
        const second = await run({ prompt: "finish it now", session });
        expect(second.outcome).toMatchObject({ kind: "completed", text: "Finished.", session });
        expect(tokensOf(second.outcome)).toEqual(
          tokensSent(server.sent((request) => request.text.includes("finish it now"))),
        );
        expect(second.outcome.usage.microUsd).toBe(2 * (100 * 3 + 20 * 15));
        expect(readFileSync(join(cwd, "a.txt"), "utf8")).toBe("one\ntwo\n");
        expect(existsSync(join(cwd, "late"))).toBe(false);
        // The resumed session contains the interrupted tool call.
        const asked = server.requests.find((request) => request.text.includes("finish it now"));
        expect(JSON.stringify(asked?.body["messages"])).toContain("sleep 300");
      },
    );

    real(
      "in the middle of a stream: reported usage counts, and the same session finishes",
      async ({ onTestFinished }) => {
        const { cwd, server, start, run } = await open({ rules: [] }, onTestFinished);
        const silent = { text: "a\nb\nc\nd\n", fault: { kind: "silent" } } as const;
        server.play({
          rules: [
            { match: /begin/, steps: [{ tool: write(join(cwd, "a.txt"), "one\n"), usage: MIXED }, silent] },
            says("finish it now"),
          ],
        });
        const seen = sight(STREAMED);
        const killed = start({ prompt: "begin", onEvent: seen.onEvent });
        await seen.promise;
        killAgent(killed.task.mark);
        const first = await killed.outcome;
        assertGone(killed.task.mark);
        expect(first).toMatchObject({ kind: "failed", cause: "killed" });
        expect(tokensOf(first)).toEqual(tokensSent(server.sent()));
        expect(first.usage.microUsd).toBe(null);

        const { session } = first;
        const second = await run({ prompt: "finish it now", session });
        expect(second.outcome).toMatchObject({ kind: "completed", text: "finish it now, said", session });
        expect(second.outcome.usage).toEqual({ inputTokens: 100, outputTokens: 20, microUsd: 600 });
        expect(readFileSync(join(cwd, "a.txt"), "utf8")).toBe("one\n");
      },
    );

    real("before it had a transcript: the session is lost, at once and for nothing", async ({ onTestFinished }) => {
      const { server, run } = await open({ rules: [says("finish it now")] }, onTestFinished);
      const { outcome } = await run({ prompt: "finish it now", session: "0b54b2e8-0000-4000-8000-000000000000" });
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", instant: true });
      expect(outcome.usage).toEqual({ inputTokens: 0, outputTokens: 0, microUsd: 0 });
      expect(server.requests).toEqual([]);
    });
  });

  describe(`the real Claude Code and its sessions${why}`, () => {
    real(
      "a fork at a message forgets what came after it, and leaves the session as it was",
      async ({ onTestFinished }) => {
        const { server, run, cwd, env } = await open({ rules: ["one", "two", "three"].map(says) }, onTestFinished);
        const one = await run({ prompt: "one" });
        const { session } = one.outcome;
        const message = one.events.findLast((event) => event.kind === "message");
        const two = await run({ prompt: "two", session });
        expect(two.outcome).toMatchObject({ kind: "completed", session });
        const place = locateTranscript({ session: session ?? "", cwd, env });
        const before = readFileSync(place.file, "utf8");

        const fork = await run({ prompt: "three", session, forkAt: message?.id ?? "" });
        expect(fork.outcome).toMatchObject({ kind: "completed", text: "three, said" });
        expect(fork.outcome.usage).toEqual({ inputTokens: 100, outputTokens: 20, microUsd: 600 });
        expect(fork.outcome.session).not.toBe(session);
        expect(fork.events.filter((event) => event.kind === "session")).toEqual([
          { kind: "session", id: fork.outcome.session },
        ]);
        const history = JSON.stringify(server.requests.at(-1)?.body["messages"]);
        expect(history).toContain("one, said");
        expect(history).not.toContain("two, said");
        expect(readFileSync(place.file, "utf8")).toBe(before);
      },
    );

    real(
      "a history that the provider refuses, or a message that is not there, is a lost session",
      async ({ onTestFinished }) => {
        const { server, run } = await open({ rules: [says("one")] }, onTestFinished);
        const { session } = (await run({ prompt: "one" })).outcome;
        const unknown = await run({ prompt: "two", session, forkAt: "0b54b2e8-0000-4000-8000-000000000000" });
        expect(unknown.outcome).toMatchObject({ kind: "failed", cause: "session_lost" });
        for (const message of [UNPAIRED, "something is wrong with messages.1"]) {
          server.play({ rules: [{ match: /(?:)/, steps: [{ fault: { kind: "status", status: 400, message } }] }] });
          expect((await run({ prompt: "two", session })).outcome).toMatchObject({ cause: "session_lost", session });
        }
      },
    );

    real("a fork that is killed counts what it took itself", async ({ onTestFinished }) => {
      const { server, start, run } = await open({ rules: [says("one")] }, onTestFinished);
      const one = await run({ prompt: "one" });
      const message = one.events.findLast((event) => event.kind === "message");
      server.play({ rules: [{ match: /two/, steps: [{ text: "a\nb\nc\nd\n", fault: { kind: "silent" } }] }] });
      const seen = sight(STREAMED);
      const forkAt = message?.id ?? "";
      const killed = start({ prompt: "two", session: one.outcome.session, forkAt, onEvent: seen.onEvent });
      await seen.promise;
      killAgent(killed.task.mark);
      expect(tokensOf(await killed.outcome)).toEqual(tokensSent(server.sent((request) => request.text === "two")));
    });

    real("work of subagents is counted, also of a killed call", async ({ onTestFinished }) => {
      const input = { description: "d", prompt: "deep work", subagent_type: "general-purpose" };
      const deep = { match: /deep work/, steps: [{ text: "deep, said", usage: { input: 1000, output: 500 } }] };
      const top = { tool: { name: "Agent", input } };
      const { server, start, run, cwd, env } = await open(
        { rules: [deep, { match: /top/, steps: [top, { text: "top, said" }] }] },
        onTestFinished,
      );
      const { outcome } = await run({ prompt: "top" });
      expect(outcome).toMatchObject({ kind: "completed" });
      expect(server.sent((request) => request.text.includes("deep work")).output).toBe(500);
      expect(tokensOf(outcome)).toEqual(tokensSent(server.sent()));

      const silent = { text: "a\nb\nc\nd\n", fault: { kind: "silent" } } as const;
      server.play({ rules: [deep, { match: /again/, steps: [top, silent] }] });
      const before = server.requests.length;
      const seen = [sight(STREAMED), sight(/"subtype":"task_notification"/)];
      let session = "";
      const onEvent = (event: AgentEvent): void => {
        if (event.kind === "session") session = event.id;
        for (const one of seen) one.onEvent(event);
      };
      const killed = start({ prompt: "again", onEvent });
      await Promise.all(seen.map((one) => one.promise));
      // The usage of a subagent is only in its record, which is written a moment later. After an earlier kill it would
      // be unknown.
      const place = locateTranscript({ session, cwd, env });
      while (!readAppended(place, new Map()).some((text) => text.includes('"output_tokens":500'))) await pause(10);
      killAgent(killed.task.mark);
      const after = await killed.outcome;
      const asked = server.requests.slice(before);
      expect(asked.map((request) => request.usage.output).toSorted()).toEqual([1, 20, 500]);
      expect(tokensOf(after)).toEqual(tokensSent(server.sent((request) => asked.includes(request))));
    });
  });

  /** A command that Claude Code does not treat as an edit. */
  const REMOVE = `node -e 'require("fs").rmSync("a.txt")'`;
  const UNPAIRED = "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1";

  describe(`permissions and missing requirements of the real Claude Code${why}`, () => {
    real("without yolo it edits, and what was denied is no success", async ({ onTestFinished }) => {
      const { cwd, server, run } = await open({ rules: [] }, onTestFinished);
      const edit = { tool: write(join(cwd, "a.txt"), "one\n") };
      server.play({ rules: [{ match: /edit/, steps: [edit, { text: "Done." }] }] });
      expect((await run({ prompt: "edit", yolo: false })).outcome).toMatchObject({ kind: "completed", text: "Done." });
      expect(readFileSync(join(cwd, "a.txt"), "utf8")).toBe("one\n");
      server.play({ rules: [{ match: /remove/, steps: [{ tool: bash(REMOVE) }, { text: "Done." }] }] });
      expect((await run({ prompt: "remove", yolo: false })).outcome).toMatchObject({
        kind: "failed",
        cause: "permission_denied",
        message: "Claude Code was not allowed to use Bash",
        hint: expect.stringContaining("--yolo"),
      });
      expect(existsSync(join(cwd, "a.txt"))).toBe(true);
    });

    real("a price that it only guesses is unknown", async ({ onTestFinished }) => {
      const { run } = await open({ rules: [says("one")] }, onTestFinished);
      const { outcome } = await run({ prompt: "one", model: "some-other-model" });
      expect(outcome.usage).toEqual({ inputTokens: 100, outputTokens: 20, microUsd: null });
    });

    real("without a login it says how to log in", async ({ onTestFinished }) => {
      const { run, server } = await open({ rules: [] }, onTestFinished);
      const { outcome } = await run({ prompt: "one", env: { ANTHROPIC_API_KEY: "" } });
      expect(outcome).toMatchObject({ cause: "auth", hint: expect.stringContaining("claude auth login") });
      expect(server.requests).toEqual([]);
    });
  });

  test("where it is not installed, the hint says how to install it", async ({ onTestFinished }) => {
    const { run } = await open({ rules: [] }, onTestFinished);
    const { outcome } = await run({ prompt: "one", env: { PATH: "/nonexistent" } });
    expect(outcome).toMatchObject({
      cause: "missing",
      message: "Claude Code is not installed: claude is not on PATH",
      hint: expect.stringContaining("npm install -g @anthropic-ai/claude-code"),
      instant: true,
    });
  });
});

describe("contract", () => {
  const SKIPS: Readonly<Record<string, string>> = {
    "usage that the agent does not report is null, which is not zero": "Claude Code always reports it",
  };

  const gone = REAL_CLAUDE.kind === "absent" ? REAL_CLAUDE.why : null;

  runAgentContract({
    title: "the real Claude Code keeps the contract",
    agent: createClaudeAgent({ clock: systemClock }),
    gone,
    skips: SKIPS,
    harnessOf,
    alone: READS_OUR_ENVIRONMENT,
    sample: 8,
  });

  test.skipIf(gone !== null)(
    "a probe reports the version, and a missing login with the fix",
    async ({ onTestFinished }) => {
      const { server, agent, env } = await openClaudeScene({ script: { rules: [] }, later: onTestFinished });
      const version = expect.stringMatching(/^\d+\.\d+\.\d+$/);
      expect(await withEnvironment(env, () => agent.probe())).toEqual({
        installed: true,
        version,
        problem: null,
        hint: null,
      });
      expect(await withEnvironment({ ...env, ANTHROPIC_API_KEY: "" }, () => agent.probe())).toMatchObject({
        version,
        problem: "Claude Code is not logged in",
        hint: expect.stringContaining("claude auth login"),
      });
      expect(await withEnvironment({ ...env, PATH: "/nonexistent" }, () => agent.probe())).toMatchObject({
        installed: false,
        hint: expect.stringContaining("npm install"),
      });
      expect([server.requests, server.other]).toEqual([[], []]);
    },
  );

  async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
    const fault = { kind: "status", status: 404, message: "model: no such" } as const;
    const scene = await openClaudeScene({
      script: { rules: [{ match: /(?:)/, steps: [{ fault }] }] },
      later,
    });
    return modelServerHarness(scene, {
      model: MODEL,
      write: (path, text) => ({ name: "Write", input: { file_path: path, content: text } }),
      shell: (command) => ({ name: "Bash", input: { command, description: "as scripted" } }),
      missingModel: "no-such-model",
      priceOf: ({ input, output }) => input * 3 + output * 15,
      slowness: 4,
    });
  }
});

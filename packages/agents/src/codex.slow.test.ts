import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import type { AgentEvent, FailureCause } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import type { ModelFault, ModelStep, ModelUsage } from "@holdfast/test-support/agents/model-script";
import {
  READS_OUR_ENVIRONMENT,
  killAgent,
  maskedRecordSuite,
  midStream,
  modelServerHarness,
  runAgentContract,
} from "@holdfast/test-support/agents/real-agent-suite";
import { type AgentScene, CODEX_MODEL, REAL_CODEX, openCodexScene } from "@holdfast/test-support/agents/real-agents";
import { type AgentHarness, appears, assertGone, prepareCall } from "@holdfast/testing/agent-contract";
import { createCodexAgent, findRollout, locateTranscript, sumResponseTokens } from "./codex.ts";

describe("contract", () => {
  const SKIPS: Readonly<Record<string, string>> = {
    "usage that the agent does not report is null, which is not zero": "Codex always reports it",
    "a prompt of five megabytes that the agent does not read does no harm":
      "Codex takes a million characters; faults.slow.test.ts",
  };

  const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;

  runAgentContract({
    title: "the real Codex keeps the contract",
    agent: createCodexAgent({ clock: systemClock }),
    gone,
    skips: SKIPS,
    harnessOf,
    alone: READS_OUR_ENVIRONMENT,
    sample: 8,
  });

  async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
    const fault = {
      kind: "status",
      status: 404,
      message: "The model `no-such` does not exist",
      type: "model_not_found",
    };
    const scene = await openCodexScene({
      script: { rules: [{ match: /(?:)/, steps: [{ fault: { ...fault, kind: "status" } }] }] },
      later,
    });
    return modelServerHarness(scene, {
      model: CODEX_MODEL,
      write: (path, text) => ({
        name: "apply_patch",
        input: `*** Begin Patch\n*** Add File: ${path}\n${linesOf(text)}*** End Patch`,
      }),
      shell: (command) => ({ name: "exec_command", input: { cmd: command } }),
      isSilent: true,
      missingModel: "no-such-model",
      slowness: 2,
    });
  }

  function linesOf(text: string): string {
    const lines = text.endsWith("\n") ? text.slice(0, -1) : text;
    return `${lines
      .split("\n")
      .map((line) => `+${line}`)
      .join("\n")}\n`;
  }
});

describe("faults", () => {
  const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;
  const IDLE_MS = 20_000;
  const MINUTE = 60_000;
  const DAY = 24 * 60 * MINUTE;

  interface Fault {
    readonly name: string;
    readonly fault: ModelFault;
    readonly cause: FailureCause;
    /** Milliseconds from the start of the call, exact to a minute. */
    readonly untilMs?: number;
    /** 0 for a rejected call, null for one that our idle limit ended. */
    readonly usage: 0 | null;
  }

  const refused = (status: number, message: string, type?: string): ModelFault => ({
    kind: "status",
    status,
    message,
    ...(type === undefined ? {} : { type }),
  });

  function limit(untilMs: number | null): ModelFault {
    const resets = untilMs === null ? {} : { resets_at: Math.floor((Date.now() + untilMs) / 1000) };
    const error = {
      type: "usage_limit_reached",
      message: "The usage limit has been reached",
      plan_type: "plus",
      ...resets,
    };
    return { kind: "status", status: 429, body: { error } };
  }

  const late: ModelFault = { kind: "status", status: 429, message: "slow down", headers: { "retry-after": "3600" } };

  /** The limits below count from here, however much later a busy machine reaches a test. */
  const BEGAN = Date.now();

  const FAULTS: readonly Fault[] = [
    { name: "401", fault: refused(401, "Incorrect API key", "invalid_api_key"), cause: "auth", usage: 0 },
    { name: "403", fault: refused(403, "Country not supported"), cause: "auth", usage: 0 },
    { name: "402", fault: refused(402, "Pay"), cause: "billing", usage: 0 },
    { name: "404", fault: refused(404, "The model `x` does not exist", "model_not_found"), cause: "missing", usage: 0 },
    { name: "429", fault: refused(429, "Rate limit reached", "rate_limit_exceeded"), cause: "rate_limit", usage: 0 },
    { name: "429 with retry-after", fault: late, cause: "rate_limit", untilMs: 60 * MINUTE, usage: null },
    { name: "a limit until today", fault: limit(2 * MINUTE), cause: "rate_limit", untilMs: 2 * MINUTE, usage: 0 },
    { name: "a limit until a day", fault: limit(3 * DAY), cause: "rate_limit", untilMs: 3 * DAY, usage: 0 },
    { name: "a limit without a date", fault: limit(null), cause: "rate_limit", usage: 0 },
    { name: "no quota", fault: refused(429, "You exceeded", "insufficient_quota"), cause: "billing", usage: 0 },
    { name: "500", fault: refused(500, "oops"), cause: "overload", usage: 0 },
    { name: "529", fault: refused(529, "overloaded"), cause: "overload", usage: 0 },
    {
      name: "context too long",
      fault: refused(400, "Your input exceeds the context window of this model.", "context_length_exceeded"),
      cause: "context_too_long",
      usage: 0,
    },
    { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network", usage: 0 },
    { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", usage: null },
    { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang", usage: null },
  ];

  describe.skipIf(gone !== null)(`how the real Codex fails${gone === null ? "" : ` (${gone})`}`, () => {
    test.for(FAULTS)("$name is $cause", { concurrent: true }, async ({ fault, cause, untilMs, usage }, context) => {
      const script = { rules: [{ match: /(?:)/, steps: [{ text: "a\nb\nc\nd", fault }] }] };
      const { agent, cwd } = await openCodexScene({ script, later: context.onTestFinished });
      const { task } = prepareCall({ cwd }, { idleMs: IDLE_MS });
      const outcome = await agent.run(task);
      expect(outcome).toMatchObject({ kind: "failed", cause, usage: { inputTokens: usage } });
      expect(outcome.session).not.toBeNull();
      const until = outcome.kind === "failed" ? outcome.until : null;
      if (untilMs === undefined) return expect(until).toBeNull();
      const at = Date.parse(until ?? "");
      // Never early. It may be late by the truncated minute and the added minute.
      expect(at).toBeGreaterThan(BEGAN + untilMs - 1000);
      expect(at).toBeLessThan(Date.now() + untilMs + 2 * MINUTE);
    });

    test("a server that is down is a network failure, although the agent reports that it waits", async (context) => {
      const { server, agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
      await server.close();
      const { task } = prepareCall({ cwd }, { idleMs: 7000 });
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "network" });
    });

    test("a prompt that it rejects as too long is context_too_long", async (context) => {
      const { agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
      const { task } = prepareCall({ cwd }, { prompt: "é".repeat(2_500_000) });
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "context_too_long" });
    });

    test("a denied permission is not a success", async (context) => {
      const cmd = { cmd: "touch x", sandbox_permissions: "require_escalated", justification: "why not" };
      const steps = [{ tool: { name: "exec_command", input: cmd } }, { text: "Never mind." }];
      const script = { rules: [{ match: /(?:)/, steps }] };
      const { agent, cwd } = await openCodexScene({ script, later: context.onTestFinished });
      const { task } = prepareCall({ cwd }, { yolo: false });
      const outcome = await agent.run(task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "permission_denied", usage: { inputTokens: 200 } });
      expect(outcome.kind === "failed" ? outcome.hint : "").toContain("--yolo");
    });

    test("without its key the hint names the fix", async (context) => {
      const { agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
      const { task } = prepareCall({ cwd }, { env: { SCRIPTED_KEY: "" } });
      const hint = expect.stringContaining("codex login");
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "auth", hint });
    });
  });
});

describe("killed", () => {
  const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;
  const PATCH = "*** Begin Patch\n*** Add File: made.txt\n+by a tool\n*** End Patch";
  const EDIT: ModelStep = {
    tool: { name: "apply_patch", input: PATCH },
    usage: { input: 111, cacheRead: 9, output: 13 },
  };
  const SLOW: ModelStep = {
    tool: { name: "exec_command", input: { cmd: "touch started; sleep 600" } },
    usage: { input: 210, output: 17 },
  };
  const STREAM: ModelStep = { text: "word\n".repeat(1000), eventDelayMs: 50 };
  const FINISH = [{ tool: { name: "exec_command", input: { cmd: "echo two >> made.txt" } } }, { text: "All done." }];

  const MOMENTS = [
    { where: "in the middle of a tool call", step: SLOW, moment: (scene: AgentScene) => appears(scene, "started") },
    { where: "in the middle of a stream", step: STREAM, moment: (scene: AgentScene) => midStream(scene.server) },
  ];

  function play(step: ModelStep) {
    return {
      rules: [
        { match: /finish it now/, steps: FINISH },
        { match: /begin/, steps: [EDIT, step] },
      ],
    };
  }

  const RECORDED_MS = 60_000;

  async function killAt(scene: AgentScene, moment: () => Promise<unknown>, session: string | null = null) {
    const { task, events } = prepareCall(scene, { prompt: session === null ? "begin" : "begin again", session });
    const before = scene.server.sent();
    const running = scene.agent.run(task);
    await moment();
    const { input, cacheRead, output } = scene.server.sent();
    await vi.waitFor(() => expect(recordedTokens(scene, events)).toMatchObject({ input: input + cacheRead, output }), {
      timeout: RECORDED_MS,
    });
    killAgent(task.mark);
    const outcome = await running;
    assertGone(task.mark);
    expect(outcome).toMatchObject({ kind: "failed", cause: "killed", usage: spent(before, scene) });
    return outcome;
  }

  /** What Codex has written of the session's tokens: it does so a moment after the answer. */
  function recordedTokens({ env }: AgentScene, events: readonly AgentEvent[]) {
    const session = events.flatMap((event) => (event.kind === "session" ? [event.id] : []))[0] ?? "";
    return sumResponseTokens(readFileSync(findRollout(locateTranscript({ session, env })) ?? "", "utf8"));
  }

  function spent(before: ModelUsage, { server }: AgentScene) {
    const now = server.sent();
    const input = now.input + now.cacheRead - before.input - before.cacheRead;
    return { inputTokens: input, outputTokens: now.output - before.output };
  }

  describe.skipIf(gone !== null)(`the real Codex, killed${gone === null ? "" : ` (${gone})`}`, () => {
    test.for(MOMENTS)("$where: the same session is resumed and finished", async ({ step, moment }, context) => {
      const scene = await openCodexScene({ script: play(step), later: context.onTestFinished });
      const killed = await killAt(scene, () => moment(scene));
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\n");
      // Killed a second time: the usage of the first call must not be counted again.
      for (const name of ["made.txt", "started"]) rmSync(join(scene.cwd, name), { force: true });
      const again = await killAt(scene, () => moment(scene), killed.session);
      expect(again.session).toBe(killed.session);
      const before = scene.server.sent();
      const { task, events } = prepareCall(scene, { prompt: "finish it now", session: killed.session });
      const outcome = await scene.agent.run(task);
      expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
      expect(outcome.usage).toMatchObject(spent(before, scene));
      expect(events).toContainEqual({ kind: "session", id: killed.session });
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\ntwo\n");
    });

    test("a session that no longer exists is lost, and nothing is spent", async (context) => {
      const scene = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
      const first = await scene.agent.run(prepareCall(scene, {}).task);
      const session = first.session ?? "";
      rmSync(findRollout(locateTranscript({ session, env: scene.env })) ?? "");
      const { length } = scene.server.requests;
      const outcome = await scene.agent.run(prepareCall(scene, { session }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session, usage: { inputTokens: 0 } });
      expect(scene.server.requests).toHaveLength(length);
    });

    test("a history that the provider rejects is a lost session, a rejection in the middle is not", async (context) => {
      const fault = { kind: "status", status: 400, message: "bad history" } as const;
      const script = {
        rules: [
          { match: /work/, steps: [{ tool: { name: "exec_command", input: { cmd: "true" } } }, { fault }] },
          { match: /at once/, steps: [{ fault }] },
        ],
      };
      const scene = await openCodexScene({ script, later: context.onTestFinished });
      const { session } = await scene.agent.run(prepareCall(scene, {}).task);
      for (const [prompt, cause] of [
        ["at once", "session_lost"],
        ["work", "crash"],
      ] as const)
        expect(await scene.agent.run(prepareCall(scene, { prompt, session }).task)).toMatchObject({ cause, session });
    });
  });
});

maskedRecordSuite({
  title: "Codex",
  gone: REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null,
  open: openCodexScene,
  forget: (at) => rmSync(findRollout(locateTranscript(at)) ?? ""),
});

import { renameSync, rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { FailureCause } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import type { ModelFault } from "@holdfast/test-support/agents/model-script";
import {
  READS_OUR_ENVIRONMENT,
  killSuite,
  maskedRecordSuite,
  modelServerHarness,
  runAgentContract,
} from "@holdfast/test-support/agents/real-agent-suite";
import { type AgentScene, GEMINI_MODEL, REAL_GEMINI, openGeminiScene } from "@holdfast/test-support/agents/real-agents";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { type AgentHarness, prepareCall } from "@holdfast/testing/agent-contract";
import { createGeminiAgent, findChats, locateTranscript } from "./gemini.ts";

describe("contract", () => {
  const SKIPS: Readonly<Record<string, string>> = {
    "usage that the agent does not report is null, which is not zero": "Gemini CLI always reports it",
    "a prompt of five megabytes that the agent does not read does no harm":
      "Gemini CLI would lose its result; faults.slow.test.ts",
  };

  const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

  runAgentContract({
    title: "the real Gemini CLI keeps the contract",
    agent: createGeminiAgent({ clock: systemClock }),
    gone,
    skips: SKIPS,
    harnessOf,
    alone: READS_OUR_ENVIRONMENT,
    timeout: 600_000,
    sample: 4,
  });

  async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
    const fault = { kind: "status", status: 404, message: "models/no-such is not found" } as const;
    const scene = await openGeminiScene({
      script: { rules: [{ match: /(?:)/, steps: [{ fault }] }] },
      later,
    });
    return modelServerHarness(scene, {
      model: GEMINI_MODEL,
      write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
      shell: (command) => ({ name: "run_shell_command", input: { command } }),
      missingModel: "no-such-model",
      slowness: 8,
    });
  }
});

describe("faults", () => {
  const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
  /** Gemini CLI prints nothing for seconds after its start. */
  const IDLE_MS = 20_000;
  const HOUR = 3_600_000;

  interface Fault {
    readonly name: string;
    readonly fault: ModelFault;
    readonly cause: FailureCause;
    /** Minimum and maximum, in milliseconds from the start of the call. */
    readonly untilMs?: readonly [number, number];
  }

  const refused = (status: number, message: string, type?: string): ModelFault => ({
    kind: "status",
    status,
    message,
    ...(type === undefined ? {} : { type }),
  });

  function quota(details: readonly object[]): ModelFault {
    const error = { code: 429, message: "You exceeded your current quota.", status: "RESOURCE_EXHAUSTED", details };
    return { kind: "status", status: 429, body: { error } };
  }

  const RPC = "type.googleapis.com/google.rpc";
  const DAILY = quota([
    { "@type": `${RPC}.QuotaFailure`, violations: [{ quotaId: "GenerateRequestsPerDayPerProjectPerModel-FreeTier" }] },
  ]);
  const KEY_INVALID = {
    code: 400,
    message: "API key not valid. Please pass a valid API key.",
    status: "INVALID_ARGUMENT",
    details: [{ "@type": `${RPC}.ErrorInfo`, reason: "API_KEY_INVALID", domain: "googleapis.com" }],
  };
  const TOO_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
  const LATER = quota([{ "@type": `${RPC}.RetryInfo`, retryDelay: "3723s" }]);

  const FAULTS: readonly Fault[] = [
    { name: "401", fault: refused(401, "invalid authentication credentials"), cause: "auth" },
    { name: "403", fault: refused(403, "Permission denied"), cause: "auth" },
    { name: "a bad key", fault: { kind: "status", status: 400, body: { error: KEY_INVALID } }, cause: "auth" },
    { name: "404", fault: refused(404, "models/x is not found"), cause: "missing" },
    { name: "429", fault: refused(429, "Resource has been exhausted"), cause: "rate_limit" },
    { name: "429 with a time", fault: LATER, cause: "rate_limit", untilMs: [3_723_000, 3_723_000 + HOUR / 4] },
    // At most a day from now, plus an hour when clocks are set back.
    { name: "a quota of the day", fault: DAILY, cause: "rate_limit", untilMs: [0, 25 * HOUR] },
    { name: "500", fault: refused(500, "oops"), cause: "overload" },
    { name: "503", fault: refused(503, "The model is overloaded."), cause: "overload" },
    { name: "529", fault: refused(529, "overloaded"), cause: "overload" },
    { name: "context too long", fault: refused(400, TOO_LONG), cause: "context_too_long" },
    { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network" },
    { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang" },
    { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang" },
  ];

  describe.skipIf(gone !== null)(
    `how the real Gemini CLI fails, by seed ${SEED}${gone === null ? "" : ` (${gone})`}`,
    () => {
      const table = sampleBySeed(FAULTS, 2);
      test.for(table)("$name is $cause", { timeout: 600_000 }, async ({ fault, cause, untilMs }, context) => {
        const script = { rules: [{ match: /(?:)/, steps: [{ text: "a\nb\nc\nd", fault }] }] };
        const { agent, cwd } = await openGeminiScene({ script, later: context.onTestFinished });
        const { task } = prepareCall({ cwd }, { idleMs: IDLE_MS });
        const began = Date.now();
        const outcome = await agent.run(task);
        expect(outcome).toMatchObject({ kind: "failed", cause });
        expect(outcome.session).not.toBeNull();
        const until = outcome.kind === "failed" ? outcome.until : null;
        if (untilMs === undefined) return expect(until).toBeNull();
        expect(Date.parse(until ?? "") - began).toBeGreaterThanOrEqual(untilMs[0]);
        expect(Date.parse(until ?? "") - began).toBeLessThanOrEqual(untilMs[1]);
      });

      test("a server that is down is a network failure", { timeout: 600_000 }, async (context) => {
        const { server, agent, cwd } = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
        await server.close();
        expect(await agent.run(prepareCall({ cwd }, {}).task)).toMatchObject({ kind: "failed", cause: "network" });
      });

      test("a denied permission is not a success", { timeout: 600_000 }, async (context) => {
        const steps = [{ tool: { name: "run_shell_command", input: { command: "touch x" } } }, { text: "Never mind." }];
        const script = { rules: [{ match: /(?:)/, steps }] };
        const { agent, cwd } = await openGeminiScene({ script, later: context.onTestFinished });
        const outcome = await agent.run(prepareCall({ cwd }, { yolo: false }).task);
        expect(outcome).toMatchObject({ kind: "failed", cause: "permission_denied", usage: { inputTokens: 200 } });
        expect(outcome.kind === "failed" ? outcome.hint : "").toContain("--yolo");
      });

      test("without its key the hint names the fix", { timeout: 600_000 }, async (context) => {
        const { agent, cwd } = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
        const hint = expect.stringContaining("GEMINI_API_KEY");
        const { task } = prepareCall({ cwd }, { env: { GEMINI_API_KEY: "" } });
        expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "auth", hint });
      });

      test("a prompt after which it would lose its result is refused, and nothing is spent", async (context) => {
        const { server, agent, cwd } = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
        const outcome = await agent.run(prepareCall({ cwd }, { prompt: "é".repeat(2_500_000) }).task);
        expect(outcome).toMatchObject({ kind: "failed", cause: "context_too_long", usage: { inputTokens: 0 } });
        expect(server.requests).toEqual([]);
      });
    },
  );
});

describe("killed", () => {
  const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
  killSuite(
    {
      agent: createGeminiAgent({ clock: systemClock }),
      open: openGeminiScene,
      write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
      shell: (command) => ({ name: "run_shell_command", input: { command } }),
      model: GEMINI_MODEL,
      isRecorded: (scene, session, answers) =>
        chatsOf(scene, session).reduce((sum, chat) => sum + chat.answers.size, 0) >= answers,
      samples: { kills: 1 },
    },
    { midTool: true, midStream: true },
  );

  function chatsOf(scene: AgentScene, session: string | null) {
    return findChats(locateTranscript({ session: session ?? "", cwd: scene.cwd, env: scene.env }));
  }

  describe.skipIf(gone !== null)(
    `the real Gemini CLI's sessions${gone === null ? "" : ` (${gone})`}`,
    { timeout: 600_000 },
    () => {
      test("a session that was resumed in a later minute survives the next one", async (context) => {
        const scene = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
        const run = (prompt: string, session: string | null) =>
          scene.agent.run(prepareCall(scene, { prompt, session }).task);
        const { session } = await run("the first words", null);
        for (const { path } of chatsOf(scene, session)) renameSync(path, path.replace(/T\d\d-\d\d-/, "T00-00-"));
        expect(await run("the second words", session)).toMatchObject({ kind: "completed", session });
        // The defect of Gemini CLI itself. When this assertion fails, the workaround can be removed.
        expect(chatsOf(scene, session).map(({ isEmpty }) => isEmpty)).toEqual([false, true]);
        expect(await run("another session", null)).toMatchObject({ kind: "completed" });
        expect(await run("the third words", session)).toMatchObject({ kind: "completed", session });
        const asked = JSON.stringify(scene.server.requests.at(-1)?.body);
        for (const words of ["the first words", "the second words", "the third words"]) expect(asked).toContain(words);
      });

      test("a session that no longer exists is lost, and nothing is spent", async (context) => {
        const scene = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
        const { session } = await scene.agent.run(prepareCall(scene, {}).task);
        for (const { path } of chatsOf(scene, session)) rmSync(path);
        const { length } = scene.server.requests;
        const outcome = await scene.agent.run(prepareCall(scene, { session }).task);
        expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session, usage: { inputTokens: 0 } });
        expect(scene.server.requests).toHaveLength(length);
      });
    },
  );
});

maskedRecordSuite({
  title: "Gemini CLI",
  gone: REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null,
  open: openGeminiScene,
  // Deletes all files of Gemini CLI for the worktree, like a user who frees disk space.
  forget: (at) => rmSync(locateTranscript(at).tmp, { recursive: true }),
});

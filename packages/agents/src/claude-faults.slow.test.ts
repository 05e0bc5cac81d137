import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { AgentOutcome, AgentTask } from "@holdfast/core/agent";
import { type FailureDecision, decideFailure, defaultErrorPolicy } from "@holdfast/core/error-policy";
import { sha256 } from "@holdfast/core/json";
import { readProcessTable } from "@holdfast/platform/process-tree";
import type { ModelFault } from "@holdfast/test-support/agents/model-script";
import { MODEL, REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { assertGone, prepareCall } from "@holdfast/testing/agent-contract";

describe("faults", () => {
  /** A fault of the provider or the network, the expected cause, and the expected reaction of the run. */
  interface Fault {
    readonly name: string;
    readonly fault: ModelFault | null;
    readonly env?: Readonly<Record<string, string>>;
    readonly idleMs?: number;
    readonly expect: Partial<Extract<AgentOutcome, { kind: "failed" }>> | "completed";
    readonly plan: Partial<FailureDecision> | null;
  }

  const RESET = Math.floor(Date.now() / 1000) + 7200;
  const LIMIT = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": String(RESET),
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
  };
  const UNTIL = new Date(RESET * 1000).toISOString();
  /** A subscription: only for it does the provider report when a limit resets. */
  const SUBSCRIBED = { ANTHROPIC_API_KEY: "", CLAUDE_CODE_OAUTH_TOKEN: "scripted" };

  const PERSON = { kind: "wait", for: "you" } as const;
  const RETRY = { kind: "retry" } as const;
  const TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum";
  const NO_CREDIT = "Your credit balance is too low to access the Anthropic API.";

  function status(code: number, more: Partial<Extract<ModelFault, { kind: "status" }>> = {}): ModelFault {
    return { kind: "status", status: code, ...more };
  }

  const FAULTS: readonly Fault[] = [
    { name: "401", fault: status(401), expect: { cause: "auth" }, plan: PERSON },
    { name: "403", fault: status(403), expect: { cause: "auth" }, plan: PERSON },
    { name: "402", fault: status(402), expect: { cause: "billing" }, plan: PERSON },
    { name: "no credit", fault: status(400, { message: NO_CREDIT }), expect: { cause: "billing" }, plan: PERSON },
    { name: "404, no such model", fault: status(404), expect: { cause: "missing" }, plan: PERSON },
    { name: "429", fault: status(429), expect: { cause: "rate_limit", until: null }, plan: RETRY },
    {
      name: "429 with a short retry-after: waited for",
      fault: status(429, { headers: { "retry-after": "1" }, times: 1 }),
      expect: "completed",
      plan: null,
    },
    {
      // The program fails immediately and does not report when a retry is possible.
      name: "429 with a long retry-after",
      fault: status(429, { headers: { "retry-after": "3600" } }),
      expect: { cause: "rate_limit", until: null },
      plan: RETRY,
    },
    {
      name: "quota with a reset date",
      fault: status(429, { headers: LIMIT }),
      env: SUBSCRIBED,
      expect: { cause: "rate_limit", until: UNTIL },
      plan: { kind: "wait", for: "quota", until: UNTIL },
    },
    { name: "500", fault: status(500), expect: { cause: "overload" }, plan: RETRY },
    { name: "529", fault: status(529), expect: { cause: "overload" }, plan: RETRY },
    { name: "a stream cut each time", fault: { kind: "cut" }, expect: { cause: "network" }, plan: RETRY },
    { name: "a stream cut once", fault: { kind: "cut", times: 1 }, expect: "completed", plan: null },
    { name: "a silent stream", fault: { kind: "silent" }, idleMs: 8000, expect: { cause: "hang" }, plan: RETRY },
    { name: "a connection that hangs", fault: { kind: "hang" }, idleMs: 8000, expect: { cause: "hang" }, plan: RETRY },
    { name: "a server that is down", fault: null, expect: { cause: "network" }, plan: RETRY },
    {
      name: "a context that is too long",
      fault: status(400, { message: TOO_LONG }),
      expect: { cause: "context_too_long" },
      plan: PERSON,
    },
    { name: "413", fault: status(413), expect: { cause: "context_too_long" }, plan: PERSON },
    { name: "400", fault: status(400), expect: { cause: "crash" }, plan: RETRY },
  ];

  const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

  describe(`the real Claude Code with faults of its provider${why}`, () => {
    for (const row of sampleBySeed(FAULTS, 6)) {
      test.skipIf(REAL_CLAUDE.kind === "absent").concurrent(row.name, async ({ onTestFinished }) => {
        const step = { text: "a\nb\nc\nd\n", ...(row.fault === null ? {} : { fault: row.fault }) };
        const script = { rules: [{ match: /(?:)/, steps: [step] }] };
        const { agent, cwd } = await openClaudeScene({ script, later: onTestFinished });
        const env = row.fault === null ? { ANTHROPIC_BASE_URL: `http://127.0.0.1:${await deadPort()}` } : {};
        const { task } = prepareCall(
          { cwd },
          { model: MODEL, idleMs: row.idleMs ?? null, env: { ...env, ...row.env } },
        );
        const outcome = await agent.run(task);
        assertGone(task.mark);
        if (row.expect === "completed") expect(outcome).toMatchObject({ kind: "completed", text: step.text });
        else expect(outcome).toMatchObject({ kind: "failed", ...row.expect });
        if (outcome.kind !== "failed") return;
        const asked = { policy: defaultErrorPolicy, agent: "claude", own: "claude", before: undefined, random: 0 };
        const plan = decideFailure({ ...asked, failure: outcome, failures: 1, now: Date.now() });
        expect(plan).toMatchObject(row.plan ?? {});
      });
    }
  });

  /** A port on which no server listens any more. */
  async function deadPort(): Promise<number> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    return typeof address === "object" && address !== null ? address.port : 9;
  }
});

describe("kills", () => {
  const KILLS = process.env["HOLDFAST_FULL"] === "1" ? 40 : 4;
  const TIMEOUT = 600_000 + KILLS * 20_000;
  const STEPS = [0, 1, 2, 3];
  const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

  /**
   * The number of output lines after which the program is killed: before the first, in a stream, in a tool call, or
   * after its end.
   */
  function killAfter(kill: number): number {
    return Number.parseInt(sha256(`${SEED}/${kill}`).slice(0, 8), 16) % 45;
  }

  test.skipIf(REAL_CLAUDE.kind === "absent")(
    `killed ${KILLS} times at moments of seed ${SEED}, the work is finished and only reported usage is counted${why}`,
    { timeout: TIMEOUT },
    async ({ onTestFinished }) => {
      const tools = STEPS.map((step) => ({
        text: `Step ${step}.\nNow.\n`,
        tool: { name: "Bash", input: { command: `echo ${step} > step-${step}; sleep 0.2`, description: "a step" } },
      }));
      const script = { rules: [{ match: /(?:)/, steps: [...tools, { text: "All done." }] }] };
      const { server, agent, cwd } = await openClaudeScene({ script, later: onTestFinished });
      let session: string | null = null;
      for (let kill = 0; kill <= KILLS; kill += 1) {
        const before = server.requests.length;
        const lines = kill === KILLS ? Infinity : killAfter(kill);
        const call = prepareCall({ cwd }, { model: MODEL, session, iteration: kill + 1 });
        const { task, isDead } = killedAfter(call.task, lines);
        const outcome = await agent.run(task);
        assertGone(task.mark);
        const sent = server.sent((request) => server.requests.indexOf(request) >= before);
        const counted = outcome.usage;
        expect(counted.inputTokens ?? 0).toBeLessThanOrEqual(sent.input);
        expect(counted.outputTokens ?? 0).toBeLessThanOrEqual(sent.output);
        if (outcome.kind === "completed") {
          expect([outcome.text, counted.inputTokens, counted.outputTokens]).toEqual([
            "All done.",
            sent.input,
            sent.output,
          ]);
        } else {
          // A program that was killed before it wrote anything left no session to resume.
          expect(outcome.cause).toBe(isDead() ? "killed" : "session_lost");
        }
        session = outcome.kind === "failed" && outcome.cause === "session_lost" ? null : outcome.session;
        if (kill === KILLS && outcome.kind === "failed") kill -= 1;
      }
      for (const step of STEPS) expect(existsSync(join(cwd, `step-${step}`))).toBe(true);
    },
  );

  /** Kills the program itself, but none of its tools, after this many lines. */
  function killedAfter(task: AgentTask, lines: number): { readonly task: AgentTask; isDead(): boolean } {
    let seen = 0;
    let dead = false;
    const kill = async (): Promise<void> => {
      for (;;) {
        const program = readProcessTable()?.live.find(
          (entry) => entry.mark === task.mark && entry.parent === process.pid,
        );
        if (program !== undefined) {
          dead = true;
          process.kill(program.pid, "SIGKILL");
          return;
        }
        if (seen > 0) return;
        await pause(5);
      }
    };
    const onEvent: AgentTask["onEvent"] = (event) => {
      if (event.kind === "session" && lines === 0) void kill();
      if (event.kind !== "raw") return;
      seen += 1;
      if (seen === lines) void kill();
    };
    return { task: { ...task, onEvent }, isDead: () => dead };
  }
});

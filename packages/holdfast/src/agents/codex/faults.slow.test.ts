import { describe, expect, test } from "vitest";
import type { FailureCause } from "../../ports/agent.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { openCodexScene, REAL_CODEX } from "../../testing/scenes/codex-scene.ts";
import type { ModelFault } from "../../testing/model-server/model-script.ts";

const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;
const IDLE_MS = 4000;
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

interface Fault {
  readonly name: string;
  readonly fault: ModelFault;
  readonly cause: FailureCause;
  /** From the start of the call; exact to a minute. */
  readonly untilMs?: number;
  /** Refused, or ended by our watchdog. */
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
    const began = Date.now();
    const outcome = await agent.run(task);
    expect(outcome).toMatchObject({ kind: "failed", cause, usage: { inputTokens: usage } });
    expect(outcome.session).not.toBeNull();
    const until = outcome.kind === "failed" ? outcome.until : null;
    if (untilMs === undefined) return expect(until).toBeNull();
    const off = Date.parse(until ?? "") - began - untilMs;
    // Never early; late by what was cut off, what was added for it, and what the start took.
    expect(off).toBeGreaterThan(-1000);
    expect(off).toBeLessThan(2 * MINUTE);
  });

  test("a server that is down is network, though it says all the time that it waits", async (context) => {
    const { server, agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
    await server.close();
    const { task } = prepareCall({ cwd }, { idleMs: 7000 });
    expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "network" });
  });

  test("a prompt that it does not take is too long", async (context) => {
    const { agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
    const { task } = prepareCall({ cwd }, { prompt: "é".repeat(2_500_000) });
    expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "context_too_long" });
  });

  test("a permission that was denied is no success", async (context) => {
    const cmd = { cmd: "touch x", sandbox_permissions: "require_escalated", justification: "why not" };
    const steps = [{ tool: { name: "exec_command", input: cmd } }, { text: "Never mind." }];
    const script = { rules: [{ match: /(?:)/, steps }] };
    const { agent, cwd } = await openCodexScene({ script, later: context.onTestFinished });
    const { task } = prepareCall({ cwd }, { yolo: false });
    const outcome = await agent.run(task);
    expect(outcome).toMatchObject({ kind: "failed", cause: "permission_denied", usage: { inputTokens: 200 } });
    expect(outcome.kind === "failed" ? outcome.hint : "").toContain("--yolo");
  });

  test("without its key it says what to do", async (context) => {
    const { agent, cwd } = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
    const { task } = prepareCall({ cwd }, { env: { SCRIPTED_KEY: "" } });
    const hint = expect.stringContaining("codex login");
    expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "auth", hint });
  });
});

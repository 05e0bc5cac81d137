import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { decideFailure, type FailureDecision } from "../../core/error-policy/decide-failure.ts";
import { defaultErrorPolicy } from "../../core/error-policy/policy.ts";
import type { AgentOutcome } from "../../ports/agent.ts";
import { assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { MODEL, openClaudeScene, REAL_CLAUDE } from "../../testing/scenes/claude-scene.ts";
import type { ModelFault } from "../../testing/model-server/model-script.ts";

/** What the provider, or the way to it, does wrong; what that is called; and what the run then does. */
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
/** A subscription: only there does the provider tell when a limit is given anew. */
const SUBSCRIBED = { ANTHROPIC_API_KEY: "", CLAUDE_CODE_OAUTH_TOKEN: "scripted" };

const PERSON = { kind: "park", on: "person" } as const;
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
    // The program gives up at once and keeps to itself when it might try again.
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
    plan: { kind: "park", on: "quota", until: UNTIL },
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

describe(`the real Claude Code and what goes wrong at its provider${why}`, () => {
  for (const row of FAULTS) {
    test.skipIf(REAL_CLAUDE.kind === "absent").concurrent(row.name, async ({ onTestFinished }) => {
      const step = { text: "a\nb\nc\nd\n", ...(row.fault === null ? {} : { fault: row.fault }) };
      const script = { rules: [{ match: /(?:)/, steps: [step] }] };
      const { agent, cwd } = await openClaudeScene({ script, later: onTestFinished });
      const env = row.fault === null ? { ANTHROPIC_BASE_URL: `http://127.0.0.1:${await deadPort()}` } : {};
      const { task } = prepareCall({ cwd }, { model: MODEL, idleMs: row.idleMs ?? null, env: { ...env, ...row.env } });
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

/** One on which nobody listens any more. */
async function deadPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 9;
}

import { describe, expect, test } from "vitest";
import type { FailureCause } from "../../ports/agent.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { openGeminiScene, REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import type { ModelFault } from "../../testing/model-server/model-script.ts";
import { sampleBySeed, SEED } from "../../testing/sample-by-seed.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
/** It is silent for seconds before it begins. */
const IDLE_MS = 20_000;
const HOUR = 3_600_000;

interface Fault {
  readonly name: string;
  readonly fault: ModelFault;
  readonly cause: FailureCause;
  /** At least and at most, from the start of the call. */
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
  // At the latest a day from now, and an hour where clocks are set back.
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
    const table = sampleBySeed(FAULTS, 3);
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

    test("a server that is down is network", { timeout: 600_000 }, async (context) => {
      const { server, agent, cwd } = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
      await server.close();
      expect(await agent.run(prepareCall({ cwd }, {}).task)).toMatchObject({ kind: "failed", cause: "network" });
    });

    test("a permission that was denied is no success", { timeout: 600_000 }, async (context) => {
      const steps = [{ tool: { name: "run_shell_command", input: { command: "touch x" } } }, { text: "Never mind." }];
      const script = { rules: [{ match: /(?:)/, steps }] };
      const { agent, cwd } = await openGeminiScene({ script, later: context.onTestFinished });
      const outcome = await agent.run(prepareCall({ cwd }, { yolo: false }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "permission_denied", usage: { inputTokens: 200 } });
      expect(outcome.kind === "failed" ? outcome.hint : "").toContain("--yolo");
    });

    test("without its key it says what to do", { timeout: 600_000 }, async (context) => {
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

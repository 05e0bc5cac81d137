import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { REAL_QWEN, settleQwen } from "@holdfast/test-support/agents/provider-agents";
import { contractSuite, faultSuite, killSuite, recordSuite } from "@holdfast/test-support/agents/real-agent-suite";
import { findRealAgent } from "@holdfast/test-support/agents/real-agents";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { sessionFile } from "./qwen.ts";

const TOO_LONG = "This model's maximum context length is 128000 tokens.";
/** Longer than it takes until the rejection is in its record on a busy machine. */
const PATIENT_MS = 45_000;

contractSuite(REAL_QWEN);
killSuite(REAL_QWEN, { midTool: true, midStream: true });
faultSuite(REAL_QWEN, [
  { name: "401", fault: { kind: "status", status: 401 }, cause: "auth" },
  { name: "403", fault: { kind: "status", status: 403 }, cause: "auth" },
  { name: "404", fault: { kind: "status", status: 404 }, cause: "missing" },
  { name: "a bad request", fault: { kind: "status", status: 400 }, cause: "crash" },
  { name: "context too long", fault: { kind: "status", status: 400, message: TOO_LONG }, cause: "context_too_long" },
  { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network" },
  { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", idleMs: 20_000 },
  { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang", idleMs: 20_000 },
  { name: "429", fault: { kind: "status", status: 429 }, cause: "rate_limit", idleMs: PATIENT_MS },
  { name: "500", fault: { kind: "status", status: 500 }, cause: "overload", idleMs: PATIENT_MS },
  { name: "529", fault: { kind: "status", status: 529 }, cause: "overload", idleMs: PATIENT_MS },
  { name: "a server that is down", fault: "down", cause: "network", idleMs: PATIENT_MS },
  { name: "a permission that was denied", fault: "denied", cause: "permission_denied" },
]);

recordSuite(REAL_QWEN, (at) => rmSync(sessionFile(at)));

const found = findRealAgent("qwen");
const why = found.kind === "absent" ? ` (${found.why})` : "";
describe.skipIf(found.kind === "absent")(`requests of the real Qwen Code${why}`, () => {
  test("requests outside of the main conversation are counted", { timeout: 600_000 }, async (context) => {
    const { server, agent, cwd, env } = await REAL_QWEN.open({ script: { rules: [] }, later: context.onTestFinished });
    settleQwen(env["HOME"] ?? "", { memory: true });
    const { kind, usage } = await agent.run(prepareCall({ cwd }, { prompt: "one" }).task);
    const { length } = server.requests;
    expect([kind, length]).toEqual(["completed", 2]);
    expect(usage).toMatchObject({ inputTokens: server.sent().input, outputTokens: server.sent().output });
  });

  test("a prompt that it rejects as too long is refused before it is sent", { timeout: 600_000 }, async (context) => {
    const { server, agent, cwd } = await REAL_QWEN.open({ script: { rules: [] }, later: context.onTestFinished });
    const outcome = await agent.run(prepareCall({ cwd }, { prompt: "é".repeat(2_500_000) }).task);
    expect(outcome).toMatchObject({ kind: "failed", cause: "context_too_long" });
    expect(server.requests.filter(({ text }) => text.includes("ééé"))).toEqual([]);
  });
});

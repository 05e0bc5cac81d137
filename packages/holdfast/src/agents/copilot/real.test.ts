import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, test } from "vitest";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { REAL_COPILOT } from "../../testing/copilot-scene.ts";
import { contractSuite, faultSuite, killSuite } from "../../testing/real-agent-suite.ts";
import { findRealAgent } from "../../testing/real-agents.ts";
import { copilotSessions } from "./sessions.ts";
import { transcriptPlace } from "./transcript-place.ts";

const TOO_LONG = "prompt is too long: 300000 tokens > 200000 maximum";

contractSuite(REAL_COPILOT);
// An answer is in its record when it is whole.
killSuite(REAL_COPILOT, { midTool: true, midStream: false });
faultSuite(REAL_COPILOT, [
  { name: "401", fault: { kind: "status", status: 401 }, cause: "auth" },
  { name: "403", fault: { kind: "status", status: 403 }, cause: "auth" },
  { name: "404", fault: { kind: "status", status: 404 }, cause: "missing" },
  { name: "a bad request", fault: { kind: "status", status: 400 }, cause: "crash" },
  { name: "429", fault: { kind: "status", status: 429 }, cause: "rate_limit", idleMs: 20_000 },
  { name: "500", fault: { kind: "status", status: 500 }, cause: "overload", idleMs: 20_000 },
  { name: "529", fault: { kind: "status", status: 529 }, cause: "overload", idleMs: 20_000 },
  { name: "context too long", fault: { kind: "status", status: 400, message: TOO_LONG }, cause: "context_too_long" },
  { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network", idleMs: 20_000 },
  { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", idleMs: 20_000 },
  { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang", idleMs: 20_000 },
  { name: "a server that is down", fault: "down", cause: "network", idleMs: 20_000 },
  { name: "a permission that was denied", fault: "denied", cause: "permission_denied" },
]);

const found = findRealAgent("copilot");
const why = found.kind === "absent" ? ` (${found.why})` : "";
describe.skipIf(found.kind === "absent")(`the real Copilot CLI's record of a session${why}`, () => {
  test("put back, the session goes on from there", { timeout: 240_000 }, async (context) => {
    const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said` }] });
    const script = { rules: ["one", "two", "three"].map(says) };
    const { server, agent, cwd, env } = await REAL_COPILOT.open({ script, later: context.onTestFinished });
    // Sessions are looked for where this very process would have them.
    Object.assign(process.env, env);
    const { session } = await agent.run(prepareCall({ cwd }, { prompt: "one" }).task);
    const at = { session: session ?? "", cwd };
    const kept = await copilotSessions.read(at);
    await agent.run(prepareCall({ cwd }, { prompt: "two", session }).task);
    rmSync(dirname(transcriptPlace({ ...at, env })), { recursive: true });
    expect(await copilotSessions.read(at)).toBeNull();
    await copilotSessions.write({ ...at, text: kept?.text ?? "" });
    const outcome = await agent.run(prepareCall({ cwd }, { prompt: "three", session }).task);
    expect(outcome).toMatchObject({ kind: "completed", text: "three, said", session });
    const history = JSON.stringify(server.requests.at(-1)?.body);
    expect(history).toContain("one, said");
    expect(history).not.toContain("two, said");
  });
});

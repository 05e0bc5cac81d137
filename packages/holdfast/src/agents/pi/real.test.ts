import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { REAL_PI } from "../../testing/pi-scene.ts";
import { contractSuite, faultSuite, killSuite } from "../../testing/real-agent-suite.ts";
import { findRealAgent } from "../../testing/real-agents.ts";
import { findSession, piSessions } from "./sessions.ts";

const TOO_LONG = "prompt is too long: 300000 tokens > 200000 maximum";

contractSuite(REAL_PI);
killSuite(REAL_PI, { midTool: true, midStream: true });
faultSuite(REAL_PI, [
  { name: "401", fault: { kind: "status", status: 401 }, cause: "auth" },
  { name: "403", fault: { kind: "status", status: 403 }, cause: "auth" },
  { name: "404", fault: { kind: "status", status: 404 }, cause: "missing" },
  { name: "a bad request", fault: { kind: "status", status: 400 }, cause: "crash" },
  { name: "429", fault: { kind: "status", status: 429 }, cause: "rate_limit" },
  { name: "500", fault: { kind: "status", status: 500 }, cause: "overload" },
  { name: "529", fault: { kind: "status", status: 529 }, cause: "overload" },
  { name: "context too long", fault: { kind: "status", status: 400, message: TOO_LONG }, cause: "context_too_long" },
  { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network" },
  { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", idleMs: 8000 },
  { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang", idleMs: 8000 },
  { name: "a server that is down", fault: "down", cause: "network" },
  { name: "a permission that was denied", fault: "denied", cause: "permission_denied" },
]);

const found = findRealAgent("pi");
describe.skipIf(found.kind === "absent")(
  `the real pi's record of a session${found.kind === "absent" ? ` (${found.why})` : ""}`,
  () => {
    test("put back, the session goes on from there", { timeout: 240_000 }, async (context) => {
      const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said` }] });
      const script = { rules: ["one", "two", "three"].map(says) };
      const { server, agent, cwd, env } = await REAL_PI.open({ script, later: context.onTestFinished });
      // Sessions are looked for where this very process would have them.
      Object.assign(process.env, env);
      const { session } = await agent.run(prepareCall({ cwd }, { prompt: "one" }).task);
      const at = { session: session ?? "", cwd };
      const kept = await piSessions.read(at);
      await agent.run(prepareCall({ cwd }, { prompt: "two", session }).task);
      rmSync(findSession({ ...at, env }) ?? "");
      expect(await piSessions.read(at)).toBeNull();
      expect(await agent.run(prepareCall({ cwd }, { prompt: "three", session }).task)).toMatchObject({
        cause: "session_lost",
      });
      await piSessions.write({ ...at, text: kept?.text ?? "" });
      const outcome = await agent.run(prepareCall({ cwd }, { prompt: "three", session }).task);
      expect(outcome).toMatchObject({ kind: "completed", text: "three, said", session });
      const history = JSON.stringify(server.requests.at(-1)?.body);
      expect(history).toContain("one, said");
      expect(history).not.toContain("two, said");
    });
  },
);

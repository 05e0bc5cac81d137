import { describe, expect, test } from "vitest";
import { REAL_OPENCODE } from "@holdfast/test-support/agents/provider-agents";
import { contractSuite, faultSuite, killSuite } from "@holdfast/test-support/agents/real-agent-suite";
import { findRealAgent } from "@holdfast/test-support/agents/real-agents";
import { appears, prepareCall } from "@holdfast/testing/agent-contract";

const IDLE_MS = 120_000;

contractSuite(REAL_OPENCODE);
// OpenCode reports the usage of a step when its tools have ended. For a killed step it is unknown.
killSuite(REAL_OPENCODE, { midTool: false, midStream: true });
faultSuite(REAL_OPENCODE, [
  { name: "401", fault: { kind: "status", status: 401 }, cause: "auth" },
  { name: "403", fault: { kind: "status", status: 403 }, cause: "auth" },
  { name: "404", fault: { kind: "status", status: 404 }, cause: "missing" },
  { name: "a bad request", fault: { kind: "status", status: 400 }, cause: "crash" },
  // OpenCode retries all of these for ever. Its log contains the provider's message without a status.
  {
    name: "429",
    fault: { kind: "status", status: 429, message: "Rate limit reached" },
    cause: "rate_limit",
    idleMs: IDLE_MS,
  },
  { name: "500", fault: { kind: "status", status: 500 }, cause: "overload", idleMs: IDLE_MS },
  { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", idleMs: IDLE_MS },
  { name: "a server that is down", fault: "down", cause: "network", idleMs: IDLE_MS },
  { name: "a permission that was denied", fault: "denied", cause: "permission_denied" },
]);

const found = findRealAgent("opencode");
const why = found.kind === "absent" ? found.why : process.env["HOLDFAST_FULL"] === "1" ? null : "with HOLDFAST_FULL=1";
describe.skipIf(why !== null)(`two calls of the real opencode${why === null ? "" : ` (${why})`}`, () => {
  // Two first calls collide when they create the database, and one fails immediately. So a single call comes first.
  test(
    "at the same time, after a first one: the end of one call does not affect the other",
    { timeout: 600_000 },
    async (context) => {
      const slow = [{ tool: REAL_OPENCODE.shell("touch up; sleep 8") }, { text: "Done." }];
      const rules = [{ match: /both/, steps: slow }];
      const scene = await REAL_OPENCODE.open({ script: { rules }, later: context.onTestFinished });
      await scene.agent.run(prepareCall(scene, {}).task);
      const [first, second] = [prepareCall(scene, { prompt: "both" }), prepareCall(scene, { prompt: "both" })];
      const both = Promise.all([scene.agent.run(first.task), scene.agent.run(second.task)]);
      await appears(scene, "up");
      first.abort();
      expect(await both).toMatchObject([{ cause: "interrupted" }, { kind: "completed", text: "Done." }]);
    },
  );
});

import { rmSync } from "node:fs";
import { REAL_PI } from "@holdfast/test-support/agents/provider-agents";
import { contractSuite, faultSuite, killSuite, recordSuite } from "@holdfast/test-support/agents/real-agent-suite";
import { findSession } from "./pi.ts";

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

recordSuite(REAL_PI, (at) => rmSync(findSession(at) ?? ""));

import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { REAL_COPILOT } from "@holdfast/test-support/agents/provider-agents";
import { contractSuite, faultSuite, killSuite, recordSuite } from "@holdfast/test-support/agents/real-agent-suite";
import { transcriptPath } from "./copilot.ts";

const TOO_LONG = "prompt is too long: 300000 tokens > 200000 maximum";
/** Longer than it takes to report the rejection on a busy machine. */
const PATIENT_MS = 45_000;

contractSuite(REAL_COPILOT);
// An answer is in the session record only when it is complete.
killSuite(REAL_COPILOT, { midTool: true, midStream: false });
faultSuite(REAL_COPILOT, [
  { name: "401", fault: { kind: "status", status: 401 }, cause: "auth" },
  { name: "403", fault: { kind: "status", status: 403 }, cause: "auth" },
  { name: "404", fault: { kind: "status", status: 404 }, cause: "missing" },
  { name: "a bad request", fault: { kind: "status", status: 400 }, cause: "crash" },
  { name: "429", fault: { kind: "status", status: 429 }, cause: "rate_limit", idleMs: PATIENT_MS },
  { name: "500", fault: { kind: "status", status: 500 }, cause: "overload", idleMs: PATIENT_MS },
  { name: "529", fault: { kind: "status", status: 529 }, cause: "overload", idleMs: PATIENT_MS },
  { name: "context too long", fault: { kind: "status", status: 400, message: TOO_LONG }, cause: "context_too_long" },
  { name: "a stream that is cut", fault: { kind: "cut" }, cause: "network", idleMs: PATIENT_MS },
  { name: "a stream that falls silent", fault: { kind: "silent" }, cause: "hang", idleMs: 20_000 },
  { name: "a request that is never answered", fault: { kind: "hang" }, cause: "hang", idleMs: 20_000 },
  { name: "a server that is down", fault: "down", cause: "network", idleMs: PATIENT_MS },
  { name: "a permission that was denied", fault: "denied", cause: "permission_denied" },
]);

recordSuite(REAL_COPILOT, (at) => rmSync(dirname(transcriptPath(at)), { recursive: true }));

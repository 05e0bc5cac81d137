// A child process that works for a dispatch until it is killed, or drains on SIGTERM: dispatch-worker.ts LOCATION RESULT [LABELS]
// It prints what happens. The work of a run whose name begins with "held" returns when the process gets a line on its standard input.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Next } from "@holdfast/core/dispatch";
import { openTestDispatch } from "../test-dispatches.ts";

const [location = "", result = "ended", labels = ""] = process.argv.slice(2);
const FAR = Date.UTC(2100, 0, 1);
const next: Next = result === "far" ? { kind: "wake", at: FAR } : { kind: "ended" };
const offset = Number(process.env["CLOCK_OFFSET_MS"] ?? "0");
const realNow = Date.now;
Date.now = () => realNow() + offset;

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const input = createInterface({ input: process.stdin });
const dispatch = await openTestDispatch(location, {
  timings: { lookMs: 50, heartbeatMs: 300, deadMs: Number(process.env["DEAD_MS"] ?? "3000"), tidyMs: 1000 },
  onProblem: (error) => print(`problem ${String(error)}`),
});
const membership = await dispatch.join(
  { labels: labels.split(",").filter((label) => label !== ""), slots: 3, version: "1" },
  async ({ run }, signal) => {
    print(`started ${run} at ${realNow()}`);
    await (run.startsWith("held") ? Promise.race([once(input, "line"), once(signal, "abort")]) : sleep(30));
    if (signal.aborted) print(`aborted ${run}`);
    print(`returned ${run}`);
    return next;
  },
);
print(`joined ${membership.id}`);
await once(process, "SIGTERM");
await membership.drain();
await dispatch.close();
print("left");
process.exit(0);

// A program that calls one agent, as Holdfast does, for tests that kill it: `node supervised-call.ts PROVIDER TASK`, the task as JSON.

import { createAgentRegistry } from "@holdfast/agents/registry";
import type { AgentTask } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";

const [, , provider = "", given = "{}"] = process.argv;
// The test wrote this JSON, so the cast is safe.
const task = JSON.parse(given) as Omit<AgentTask, "signal" | "onEvent">;
const agent = createAgentRegistry({ clock: systemClock, directory: "/" }).agent(provider);
const outcome = await agent.run({ ...task, signal: new AbortController().signal, onEvent: () => undefined });
process.stdout.write(JSON.stringify(outcome));

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { readProcessTable } from "../system/process-table.ts";
import type { ModelServer } from "./model-server/model-server.ts";

/** Kills the agent itself, by a signal that nobody can catch, and nothing else of the call: what it has started is left behind, at work. */
export function killAgent(mark: string): void {
  const agent = readProcessTable()?.live.find((entry) => entry.mark === mark && entry.parent === process.pid);
  assert.ok(agent !== undefined, "the agent is not running");
  process.kill(agent.pid, "SIGKILL");
}

/** An answer after a tool call has begun, and has not come whole. */
export async function midStream(server: ModelServer): Promise<void> {
  await server.until(({ place, end }) => (place?.step ?? 0) > 0 && end === "open");
  await pause(STREAMED_MS);
}

const STREAMED_MS = 400;

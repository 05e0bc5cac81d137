import { setTimeout as pause } from "node:timers/promises";
import { processesOf } from "./agent-contract/harness.ts";
import type { ModelServer } from "./model-server/model-server.ts";

/** Kills every process of a call, as nothing of ours would: by a signal that nobody can catch. */
export function killMarked(mark: string): void {
  for (const pid of processesOf(mark)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // One that has ended in between.
      continue;
    }
  }
}

/** An answer after a tool call has begun, and has not come whole. */
export async function midStream(server: ModelServer): Promise<void> {
  await server.until(({ place, end }) => (place?.step ?? 0) > 0 && end === "open");
  await pause(STREAMED_MS);
}

const STREAMED_MS = 400;

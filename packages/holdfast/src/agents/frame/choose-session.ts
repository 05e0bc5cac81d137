import type { AgentTask } from "../../ports/agent.ts";
import { sha256 } from "../../system/hash.ts";

/**
 * The id of a new session, as a UUID. It follows from the call, so that a try whose record was lost in a crash can be traced to its
 * transcript; one that was used before is passed over.
 */
export function chooseSession(
  task: Pick<AgentTask, "mark" | "iteration" | "attempt">,
  isTaken: (id: string) => boolean,
): string {
  for (let count = 0; ; count += 1) {
    const id = uuidOf(sha256(JSON.stringify([task.mark, task.iteration, task.attempt, count])));
    if (!isTaken(id)) return id;
  }
}

/** Version 8: made in a way of our own. */
function uuidOf(hex: string): string {
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}

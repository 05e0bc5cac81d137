import type { AgentTask } from "../../ports/agent.ts";
import { sha256 } from "../../system/hash.ts";

/**
 * The id of a new session, as a UUID. It follows from the call, so that a try whose record was lost in a crash can be traced to its
 * transcript; one that was used before is passed over.
 */
export function chooseSession(
  task: Pick<AgentTask, "mark" | "iteration" | "attempt">,
  isTaken: (id: string) => boolean,
  version: UuidVersion = "8",
): string {
  for (let count = 0; ; count += 1) {
    const id = uuidOf(sha256(JSON.stringify([task.mark, task.iteration, task.attempt, count])), version);
    if (!isTaken(id)) return id;
  }
}

/** 8 says that it is made in a way of our own; 5, that it follows from a name, for who knows no 8. */
export type UuidVersion = "5" | "8";

function uuidOf(hex: string, version: UuidVersion): string {
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `${version}${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}

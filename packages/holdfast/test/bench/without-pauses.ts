import type { WorkParts } from "../../src/engine/work-parts.ts";

/** Pauses are counted, not waited for. */
export function withoutPauses(parts: WorkParts): WorkParts {
  return { ...parts, wait: passPause };
}

export const passPause: WorkParts["wait"] = (_, signal) => {
  signal.throwIfAborted();
  return Promise.resolve();
};

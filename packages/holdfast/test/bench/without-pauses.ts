import type { WorkParts } from "@holdfast/core/adapters";

/** Pauses are passed over, not waited for. */
export function withoutPauses(parts: WorkParts): WorkParts {
  return {
    ...parts,
    wait: (_, signal) => {
      signal.throwIfAborted();
      return Promise.resolve();
    },
  };
}

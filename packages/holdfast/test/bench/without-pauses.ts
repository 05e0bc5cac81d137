import type { Adapters } from "@holdfast/core/adapters";

/** Pauses are passed over, not waited for. */
export function withoutPauses(parts: Adapters): Adapters {
  return {
    ...parts,
    wait: (_, signal) => {
      signal.throwIfAborted();
      return Promise.resolve();
    },
  };
}

import type { Adapters } from "@holdfast/core/adapters";

/** Pauses are passed over, not waited for. */
export function withoutPauses(adapters: Adapters): Adapters {
  return {
    ...adapters,
    wait: (_, signal) => {
      signal.throwIfAborted();
      return Promise.resolve();
    },
  };
}

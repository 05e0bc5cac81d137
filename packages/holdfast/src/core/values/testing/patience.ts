/** Property tests may take a while on a busy machine. */
export const TIMEOUT = { timeout: 600_000 };

/** Cuts short the search for a smaller counterexample, which on large values would go on for minutes. */
export function runs(numRuns: number): { readonly numRuns: number; readonly interruptAfterTimeLimit: number } {
  return { numRuns, interruptAfterTimeLimit: 30_000 };
}

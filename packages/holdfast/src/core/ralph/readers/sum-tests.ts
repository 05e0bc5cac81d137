import type { TestCounts } from "../metrics.ts";

/** Together; null where none is known. */
export function sumTests(counts: readonly (TestCounts | null)[]): TestCounts | null {
  return counts.reduce((sum, one) => {
    if (sum === null || one === null) return sum ?? one;
    return {
      passed: sum.passed + one.passed,
      failed: sum.failed + one.failed,
      skipped: sum.skipped + one.skipped,
    };
  }, null);
}

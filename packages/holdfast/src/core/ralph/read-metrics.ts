import type { Failing, Metrics, TestCounts } from "./metrics.ts";
import { outputLines } from "./output-lines.ts";
import { readDiagnostics } from "./read-diagnostics.ts";
import { readTests } from "./read-tests.ts";

/**
 * What a command's output says in numbers. Only what a known tool wrote is believed; of any other output nothing is said, and the exit
 * code is all there is. Never throws, and takes time in proportion to what it looks at: the last million characters.
 */
export function readMetrics(output: string): Metrics {
  const lines = outputLines(output);
  const readings = [...readTests(lines), ...readDiagnostics(lines)];
  return {
    tests: sumTests(readings.map((reading) => reading.tests)),
    errors: sumKnown(readings.map((reading) => reading.errors)),
    warnings: sumKnown(readings.map((reading) => reading.warnings)),
    failing: listFailing(readings.flatMap((reading) => reading.failing)),
    readers: readings.map((reading) => reading.reader).toSorted(),
  };
}

/** Of several checks together. */
export function joinMetrics(all: readonly Metrics[]): Metrics {
  const left = all.reduce((sum, one) => sum + one.failing.more, 0);
  const failing = listFailing(all.flatMap((one) => one.failing.names));
  return {
    tests: sumTests(all.map((one) => one.tests)),
    errors: sumKnown(all.map((one) => one.errors)),
    warnings: sumKnown(all.map((one) => one.warnings)),
    failing: { ...failing, more: failing.more + left },
    readers: [...new Set(all.flatMap((one) => one.readers))].toSorted(),
  };
}

const MOST_NAMES = 200;
const MOST_NAME = 200;

function listFailing(names: readonly string[]): Failing {
  const all = [...new Set(names.map((name) => name.slice(0, MOST_NAME).toWellFormed()))].toSorted();
  return { names: all.slice(0, MOST_NAMES), more: Math.max(0, all.length - MOST_NAMES) };
}

function sumTests(counts: readonly (TestCounts | null)[]): TestCounts | null {
  return counts.reduce((sum, one) => {
    if (sum === null || one === null) return sum ?? one;
    return {
      passed: sum.passed + one.passed,
      failed: sum.failed + one.failed,
      skipped: sum.skipped + one.skipped,
    };
  }, null);
}

function sumKnown(numbers: readonly (number | null)[]): number | null {
  return numbers.reduce((sum, one) => (sum === null || one === null ? (sum ?? one) : sum + one), null);
}

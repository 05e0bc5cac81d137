import { maskSecrets } from "../mask.ts";
import type { Failing, Metrics } from "./metrics.ts";
import { readCargoTest } from "./readers/cargo-test.ts";
import { readDiagnostics } from "./readers/diagnostics.ts";
import { readGoTest } from "./readers/go-test.ts";
import { readJest } from "./readers/jest.ts";
import { readMocha } from "./readers/mocha.ts";
import { readPytest } from "./readers/pytest.ts";
import { sumTests } from "./readers/sum-tests.ts";
import { readTap } from "./readers/tap.ts";
import { readVitest } from "./readers/vitest.ts";

const TEST_READERS = [readTap, readVitest, readJest, readMocha, readPytest, readGoTest, readCargoTest];

/**
 * What a command's output (see outputLines) says in numbers. Only what a known tool wrote is believed; of any other output nothing is said,
 * and the exit code is all there is.
 */
export function readMetrics(lines: readonly string[]): Metrics {
  const tests = TEST_READERS.map((read) => read(lines)).filter((reading) => reading !== null);
  const readings = [...tests, ...readDiagnostics(lines)];
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
  // The name of a parametrised test holds its values.
  const kept = [...new Set(all.slice(0, MOST_NAMES).map((name) => maskSecrets(name)))].toSorted();
  return { names: kept, more: Math.max(0, all.length - MOST_NAMES) };
}

function sumKnown(numbers: readonly (number | null)[]): number | null {
  return numbers.reduce((sum, one) => (sum === null || one === null ? (sum ?? one) : sum + one), null);
}

import { countWords, matches, tally, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";
import { sumTests } from "./sum-tests.ts";

/**
 * "      Tests  1 failed | 2 passed (3)", under "Test Files …". A file that could not be loaded is no test there; here it counts as one that
 * fails, because what it holds did not pass.
 */
export function readVitest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^ {0,12}Tests {1,8}[\da-z|\s]{1,200}\(\d{1,9}\)\s{0,4}$/.test(line));
  if (found.length === 0 && !lines.some((line) => /^ {0,4}Test Files {1,8}\S/.test(line))) return null;
  const unloaded = tally(lines, /^ {0,4}FAIL {1,4}[^>]{1,300} \[ [^\]]{1,300} \]$/);
  const counts = found.map((line) => countWords(line.split("|")));
  return testReading("vitest", {
    tests: sumTests([...counts, unloaded === 0 ? null : { passed: 0, failed: unloaded, skipped: 0 }]),
    failing: matches(lines, /^ {0,4}FAIL {1,4}(.{1,300}?)(?: \[ [^\]]{1,300} \])?$/),
  });
}

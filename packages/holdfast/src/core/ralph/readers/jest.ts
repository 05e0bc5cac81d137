import { countWords, matches, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";
import { sumTests } from "./sum-tests.ts";

/** "Tests:       1 failed, 2 passed, 3 total"; a failure is told after a dot, its suites and its name parted by "›". */
export function readJest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^Tests: {1,12}[\da-z,\s]{1,200}total\s{0,4}$/.test(line));
  if (found.length === 0) return null;
  return testReading("jest", {
    tests: sumTests(found.map((line) => countWords(line.split(",")))),
    failing: matches(lines, /^ {2}● (.{1,300})$/).filter((name) => name !== "Console"),
  });
}

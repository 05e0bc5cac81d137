import { countWords, matches, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";
import { sumTests } from "./sum-tests.ts";

/** "=== 1 failed, 2 passed in 0.12s ===", or the same without the rule. What cannot be collected counts as a test that fails. */
export function readPytest(lines: readonly string[]): Reading | null {
  const found = matches(
    lines,
    /^(?:={1,200} )?((?:\d{1,9} [a-z]{4,12}, ){0,8}\d{1,9} [a-z]{4,12}) in \d{1,9}\.\d{1,4}s(?: \([\d:]{1,12}\))?(?: ={1,200})?$/,
  );
  if (found.length === 0) return null;
  return testReading("pytest", {
    tests: sumTests(found.map((words) => countWords(words.split(",")))),
    failing: matches(lines, /^(?:FAILED|ERROR) (.{1,300}?)(?: - .{0,1000})?$/),
  });
}

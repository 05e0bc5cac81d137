import { countWords, matches, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";
import { sumTests } from "./sum-tests.ts";

/** One line for each binary: "test result: FAILED. 3 passed; 1 failed; 0 ignored; …". */
export function readCargoTest(lines: readonly string[]): Reading | null {
  const found = matches(lines, /^test result: (?:ok|FAILED)\. (\d{1,9} passed; \d{1,9} failed; \d{1,9} ignored);/);
  if (found.length === 0) return null;
  return testReading("cargo test", {
    tests: sumTests(found.map((words) => countWords(words.split(";")))),
    failing: matches(lines, /^test (.{1,300}) \.\.\. FAILED$/),
  });
}

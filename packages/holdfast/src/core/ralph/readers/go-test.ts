import { matches, tally, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";

/** With -v every test is counted; without it only packages report, so they are what is counted. A package that does not build fails as one. */
export function readGoTest(lines: readonly string[]): Reading | null {
  const ok = tally(lines, /^ok {2}\t\S/);
  const broken = matches(lines, /^FAIL\t(\S{1,300})/);
  if (ok === 0 && broken.length === 0) return null;
  const named = matches(lines, /^\s{0,80}--- FAIL: (\S{1,300})/);
  const unbuilt = matches(lines, /^FAIL\t(\S{1,300}) \[[a-z ]{1,40}\]$/);
  const failing = named.length === 0 ? broken : [...named, ...unbuilt];
  if (!lines.some((line) => line.startsWith("=== RUN ")))
    return testReading("go test", { tests: { passed: ok, failed: broken.length, skipped: 0 }, failing });
  const passed = tally(lines, /^\s{0,80}--- PASS: /);
  const skipped = tally(lines, /^\s{0,80}--- SKIP: /);
  return testReading("go test", { tests: { passed, failed: named.length + unbuilt.length, skipped }, failing });
}

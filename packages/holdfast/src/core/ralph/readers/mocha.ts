import { countWords, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";

/** "  5 passing (20ms)", "  1 failing", "  2 pending"; then every failure with its number. */
export function readMocha(lines: readonly string[]): Reading | null {
  if (!lines.some((line) => /^ {2}\d{1,9} passing \(\d{1,9}[a-z]{1,2}\)$/.test(line))) return null;
  const found = lines.filter((line) =>
    /^ {2}\d{1,9} (?:passing|failing|pending)(?: \(\d{1,9}[a-z]{1,2}\))?$/.test(line),
  );
  return testReading("mocha", { tests: countWords(found), failing: namesIn(lines) });
}

const MOST_PARTS = 8;

/** The suites and then the test, one a line, up to a colon. */
function namesIn(lines: readonly string[]): readonly string[] {
  const start = lines.findIndex((line) => /^ {2}\d{1,9} failing$/.test(line));
  if (start === -1) return [];
  return lines.slice(start).flatMap((line, place) => {
    const [, first] = /^ {2}\d{1,9}\) (.{1,300})$/.exec(line) ?? [];
    if (first === undefined) return [];
    const rest = lines.slice(start + place + 1, start + place + 1 + MOST_PARTS).map((one) => one.trim());
    const parts = first.endsWith(":")
      ? [first]
      : [first, ...rest.slice(0, rest.findIndex((one) => one.endsWith(":")) + 1)];
    return [parts.join(" > ").replace(/:$/, "")];
  });
}

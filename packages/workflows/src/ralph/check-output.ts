// Reads test counts, failing tests and compiler or linter errors from the output of check commands. Every pattern works
// on bounded lines.

import { maskSecrets } from "@holdfast/core/mask";
import type { Failing, Metrics, TestCounts } from "./iteration.ts";

/** One line for each binary: "test result: FAILED. 3 passed; 1 failed; 0 ignored; …". */
function readCargoTest(lines: readonly string[]): Reading | null {
  const found = matches(lines, /^test result: (?:ok|FAILED)\. (\d{1,9} passed; \d{1,9} failed; \d{1,9} ignored);/);
  if (found.length === 0) return null;
  return testReading("cargo test", {
    tests: sumTests(found.map((words) => countWords(words.split(";")))),
    failing: matches(lines, /^test (.{1,300}) \.\.\. FAILED$/),
  });
}

/**
 * With -v go counts every test. Without it only packages report, so packages are counted. A package that does not build
 * counts as one failure.
 */
function readGoTest(lines: readonly string[]): Reading | null {
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

/** "Tests:       1 failed, 2 passed, 3 total". A failure follows a dot, with its suites and name separated by "›". */
function readJest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^Tests: {1,12}[\da-z,\s]{1,200}total\s{0,4}$/.test(line));
  if (found.length === 0) return null;
  return testReading("jest", {
    tests: sumTests(found.map((line) => countWords(line.split(",")))),
    failing: matches(lines, /^ {2}● (.{1,300})$/).filter((name) => name !== "Console"),
  });
}

/** "  5 passing (20ms)", "  1 failing", "  2 pending"; then each failure with its number. */
function readMocha(lines: readonly string[]): Reading | null {
  if (!lines.some((line) => /^ {2}\d{1,9} passing \(\d{1,9}[a-z]{1,2}\)$/.test(line))) return null;
  const found = lines.filter((line) =>
    /^ {2}\d{1,9} (?:passing|failing|pending)(?: \(\d{1,9}[a-z]{1,2}\))?$/.test(line),
  );
  return testReading("mocha", { tests: countWords(found), failing: namesIn(lines) });
}

const MOST_PARTS = 8;

/** A failure lists its suites and then the test, one per line, up to a colon. */
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

/** "=== 1 failed, 2 passed in 0.12s ===", or the same without the rule. A collection error counts as a failing test. */
function readPytest(lines: readonly string[]): Reading | null {
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

/** Reads TAP and the output of node:test. A runner's own summary takes precedence over counting the same lines. */
function readTap(lines: readonly string[]): Reading | null {
  return readSummary(lines) ?? readPoints(lines);
}

/** The summary of node:test, tape and others: "# pass 3" or "ℹ pass 3". Several runs add up. */
function readSummary(lines: readonly string[]): Reading | null {
  const sums = new Map<string, number>();
  for (const line of lines) {
    const [, word = "", digits = ""] =
      /^(?:#|ℹ) {1,4}(tests|pass|fail|cancelled|skipped|todo) {1,4}(\d{1,9})$/.exec(line) ?? [];
    if (word !== "") sums.set(word, (sums.get(word) ?? 0) + Number(digits));
  }
  const of = (word: string): number => sums.get(word) ?? 0;
  if (!sums.has("pass") || !sums.has("tests")) return null;
  const names = matches(lines, /^\s{0,80}(?:not ok \d{1,9}(?: -)? (.{1,300})|✖ (.{1,300}?)(?: \(\d[\d.]{0,20}ms\))?)$/);
  return testReading("tap", {
    tests: { passed: of("pass"), failed: of("fail") + of("cancelled"), skipped: of("skipped") + of("todo") },
    failing: names.filter((name) => name !== "failing tests:" && !isExcused(name)),
  });
}

/** Counts tests at the outermost level. As TAP specifies, a planned test that never reported has failed. */
function readPoints(lines: readonly string[]): Reading | null {
  const tests = { passed: 0, failed: 0, skipped: 0 };
  let planned: number | null = null;
  for (const line of lines) {
    const [, plan] = /^1\.\.(\d{1,6})(?:\s|$)/.exec(line) ?? [];
    if (plan !== undefined) planned = (planned ?? 0) + Number(plan);
    if (!/^(?:not )?ok(?: \d{1,9}\b| - |$)/.test(line)) continue;
    if (isExcused(line)) tests.skipped += 1;
    else if (line.startsWith("ok")) tests.passed += 1;
    else tests.failed += 1;
  }
  // A lone "ok" is an ordinary word; only a plan identifies TAP.
  if (planned === null) return null;
  tests.failed += Math.max(0, planned - tests.passed - tests.failed - tests.skipped);
  const names = matches(lines, /^not ok(?: \d{1,9})?(?: -)? (.{1,300})$/);
  return testReading("tap", { tests, failing: names.filter((name) => !isExcused(name)) });
}

/** TAP's mark for an expected failure or a test that did not run. */
function isExcused(line: string): boolean {
  return / # (?:skip|todo)\b/i.test(line);
}

/**
 * " Tests 1 failed | 2 passed (3)", under "Test Files …". Vitest does not count a file that failed to load as a test.
 * It counts as one failure here, because its tests did not pass.
 */
function readVitest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^ {0,12}Tests {1,8}[\da-z|\s]{1,200}\(\d{1,9}\)\s{0,4}$/.test(line));
  if (found.length === 0 && !lines.some((line) => /^ {0,4}Test Files {1,8}\S/.test(line))) return null;
  const unloaded = tally(lines, /^ {0,4}FAIL {1,4}[^>]{1,300} \[ [^\]]{1,300} \]$/);
  const counts = found.map((line) => countWords(line.split("|")));
  return testReading("vitest", {
    tests: sumTests([...counts, unloaded === 0 ? null : { passed: 0, failed: unloaded, skipped: 0 }]),
    failing: matches(lines, /^ {0,4}FAIL {1,4}(.{1,300}?)(?: \[ [^\]]{1,300} \])?$/),
  });
}

const TEST_READERS = [readTap, readVitest, readJest, readMocha, readPytest, readGoTest, readCargoTest];

/**
 * Reads the numbers from a command's output (see outputLines). Only the output of known tools counts; for any other
 * output the exit code is the only fact.
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

/** Combines the metrics of several checks. */
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
  // The name of a parametrised test contains its values, which may be secrets.
  const kept = [...new Set(all.slice(0, MOST_NAMES).map((name) => maskSecrets(name)))].toSorted();
  return { names: kept, more: Math.max(0, all.length - MOST_NAMES) };
}

function sumKnown(numbers: readonly (number | null)[]): number | null {
  return numbers.reduce((sum, one) => (sum === null || one === null ? (sum ?? one) : sum + one), null);
}

/** Only the end of an output is read, because summaries are there. */
const MOST_CHARACTERS = 1_000_000;
const MOST_LINES = 20_000;
const MOST_LINE = 1_000;

/**
 * Returns the last lines of an output, without colours and carriage returns and with long lines cut. All patterns
 * therefore work on a bounded number of bounded lines, so that no output can make them slow.
 */
export function outputLines(output: string): readonly string[] {
  return output
    .slice(-MOST_CHARACTERS)
    .split("\n")
    .slice(-MOST_LINES)
    .map((line) => plain(line.slice(0, MOST_LINE)));
}

/** Keeps only the text after the last carriage return, so that a progress bar leaves one line. */
function plain(line: string): string {
  const bare = line.includes("\u001B") ? line.replace(COLOUR, "") : line;
  const trimmed = bare.endsWith("\r") ? bare.slice(0, -1) : bare;
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}

// eslint-disable-next-line no-control-regex
const COLOUR = /\u001B\[[0-9;?]{0,40}[A-Za-z]/g;

/**
 * What one tool's output reports; null where it reports nothing. Every pattern matches one bounded line, and every
 * repetition in it is bounded.
 */
interface Reading {
  readonly reader: string;
  readonly tests: TestCounts | null;
  readonly failing: readonly string[];
  readonly errors: number | null;
  readonly warnings: number | null;
}

function testReading(
  reader: string,
  params: { readonly tests: TestCounts | null; readonly failing: readonly string[] },
): Reading {
  return { reader, ...params, errors: null, warnings: null };
}

/** Returns the first group that matched, for every matching line. */
function matches(lines: readonly string[], pattern: RegExp): readonly string[] {
  return lines.flatMap((line) => {
    const name = pattern
      .exec(line)
      ?.slice(1)
      .find((group) => group !== undefined);
    return name === undefined ? [] : [name.trim()];
  });
}

function tally(lines: readonly string[], pattern: RegExp): number {
  return lines.reduce((total, line) => total + (pattern.test(line) ? 1 : 0), 0);
}

/** Counts words as in "1 failed, 2 passed". Other words (total, warnings, deselected) count nothing. */
function countWords(parts: readonly string[]): TestCounts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const part of parts) {
    const [, digits = "", word = ""] = /(\d{1,9}) ([a-z]{1,12})/.exec(part) ?? [];
    const kind = WORDS.get(word);
    if (kind !== undefined) counts[kind] += Number(digits);
  }
  return counts;
}

const WORDS: ReadonlyMap<string, keyof TestCounts> = new Map([
  ["passed", "passed"],
  ["passing", "passed"],
  ["xpassed", "passed"],
  ["failed", "failed"],
  ["failing", "failed"],
  ["error", "failed"],
  ["errors", "failed"],
  ["skipped", "skipped"],
  ["pending", "skipped"],
  ["todo", "skipped"],
  ["xfailed", "skipped"],
  ["ignored", "skipped"],
]);

/** Returns the sum; null if no count is known. */
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

/** Reads compiler and linter diagnostics. If a tool both lists and sums up errors, only one of the two counts. */
function readDiagnostics(lines: readonly string[]): readonly Reading[] {
  const tsc = readTsc(lines);
  const readings = [
    tsc,
    readEslint(lines),
    readRustc(lines),
    readCounted(lines),
    tsc === null ? readFound(lines) : null,
  ];
  return readings.filter((reading) => reading !== null);
}

/**
 * "src/a.ts(1,2): error TS2322: …" and "src/a.ts:1:2 - error TS2322: …". The name is file and code, because line
 * numbers change.
 */
function readTsc(lines: readonly string[]): Reading | null {
  const failing = lines.flatMap((line) => {
    const [, file = "", code = ""] =
      /^(?:([^\s(:][^(:]{0,300})(?:\(\d{1,9},\d{1,9}\): |:\d{1,9}:\d{1,9} - ))?error (TS\d{1,6}): /.exec(line) ?? [];
    return code === "" ? [] : [file === "" ? code : `${file}: ${code}`];
  });
  return failing.length === 0 ? null : diagnostics("tsc", { errors: failing.length, warnings: null, failing });
}

/** "✖ 3 problems (2 errors, 1 warning)". */
function readEslint(lines: readonly string[]): Reading | null {
  return added("eslint", lines, /^✖ \d{1,9} problems? \((\d{1,9}) errors?, (\d{1,9}) warnings?\)/);
}

/** "Found 2 warnings and 1 error." (oxlint). */
function readCounted(lines: readonly string[]): Reading | null {
  const reading = added("oxlint", lines, /^Found (\d{1,9}) warnings? and (\d{1,9}) errors?\.$/);
  return reading === null ? null : { ...reading, errors: reading.warnings, warnings: reading.errors };
}

/** "Found 3 errors in 1 file (checked 2 source files)": mypy, ruff, biome. */
function readFound(lines: readonly string[]): Reading | null {
  return added("errors found", lines, /^Found (\d{1,9}) errors?(?: in \d{1,9} files?\b.{0,100}|\.)$/);
}

function readRustc(lines: readonly string[]): Reading | null {
  const errors = lines.filter((line) =>
    /^error(?:\[E\d{1,6}\])?: (?!could not compile|aborting due|test failed)/.test(line),
  );
  // Other tools also start lines with "error:". Only an error code or the closing line identifies rustc.
  const known = lines.some((line) => /^error(?:\[E\d{1,6}\]: |: could not compile )/.test(line));
  if (!known) return null;
  return diagnostics("rustc", { errors: errors.length, warnings: null, failing: [] });
}

/** The first group is errors, the optional second one warnings. Several lines add up. */
function added(reader: string, lines: readonly string[], pattern: RegExp): Reading | null {
  const found = lines.flatMap((line) => {
    const groups = pattern.exec(line);
    return groups === null ? [] : [{ errors: Number(groups[1]), warnings: groups[2] }];
  });
  if (found.length === 0) return null;
  const errors = found.reduce((sum, one) => sum + one.errors, 0);
  const reported = found.some((one) => one.warnings !== undefined);
  const warnings = reported ? found.reduce((sum, one) => sum + Number(one.warnings ?? 0), 0) : null;
  return diagnostics(reader, { errors, warnings, failing: [] });
}

function diagnostics(reader: string, params: Pick<Reading, "errors" | "warnings" | "failing">): Reading {
  return { reader, tests: null, ...params };
}

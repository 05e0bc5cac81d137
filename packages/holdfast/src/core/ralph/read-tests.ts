import type { TestCounts } from "./metrics.ts";

/** What one tool's output says; null where it says nothing. */
export interface Reading {
  readonly reader: string;
  readonly tests: TestCounts | null;
  readonly failing: readonly string[];
  readonly errors: number | null;
  readonly warnings: number | null;
}

/** Every test runner that left its marks. Each pattern is anchored and looks at one bounded line. */
export function readTests(lines: readonly string[]): readonly Reading[] {
  // What a runner adds up itself goes before what we would count of the same lines.
  const summary = readSummaryComments(lines);
  const readings = [
    summary ?? readTap(lines),
    vitest(lines),
    jest(lines),
    mocha(lines),
    pytest(lines),
    go(lines),
    cargo(lines),
  ];
  return readings.filter((reading) => reading !== null);
}

/** node:test, tape and others: "# pass 3" or "ℹ pass 3". Several runs add up. */
function readSummaryComments(lines: readonly string[]): Reading | null {
  const sums = new Map<string, number>();
  for (const line of lines) {
    const [, word = "", digits = ""] =
      /^(?:#|ℹ) {1,4}(tests|pass|fail|cancelled|skipped|todo) {1,4}(\d{1,9})$/.exec(line) ?? [];
    if (word !== "") sums.set(word, (sums.get(word) ?? 0) + Number(digits));
  }
  const of = (word: string): number => sums.get(word) ?? 0;
  if (!sums.has("pass")) return null;
  const failing = matches(lines, /^\s{0,80}(?:not ok \d{1,9} - (.{1,300})|✖ (.{1,300}?)(?: \(\d[\d.]{0,20}ms\))?)$/);
  return tests("node:test", {
    counts: { passed: of("pass"), failed: of("fail") + of("cancelled"), skipped: of("skipped") + of("todo") },
    failing: failing.filter((name) => !isExcused(name) && name !== "failing tests:").map(withoutDirective),
  });
}

/** Tests at the outermost level. Planned ones that never reported have failed, as the protocol says. */
function readTap(lines: readonly string[]): Reading | null {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  let planned: number | null = null;
  for (const line of lines) {
    const plan = /^1\.\.(\d{1,6})(?:\s|$)/.exec(line);
    if (plan !== null) planned = (planned ?? 0) + Number(plan[1]);
    if (!/^(?:not )?ok(?: \d{1,9}\b| - |$)/.test(line)) continue;
    if (isExcused(line)) counts.skipped += 1;
    else if (line.startsWith("ok")) counts.passed += 1;
    else counts.failed += 1;
  }
  const seen = counts.passed + counts.failed + counts.skipped;
  // A lone "ok" is a word like any other; the plan makes it TAP.
  if (planned === null) return null;
  counts.failed += Math.max(0, planned - seen);
  const failing = matches(lines, /^not ok(?: \d{1,9})?(?: -)? (.{1,300})$/);
  return tests("tap", { counts, failing: failing.filter((name) => !isExcused(name)).map(withoutDirective) });
}

/** "      Tests  1 failed | 2 passed (3)". */
function vitest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^ {0,12}Tests {1,8}[\da-z|\s]{1,200}\(\d{1,9}\)\s{0,4}$/.test(line));
  const broken = matches(lines, /^ {0,4}FAIL {1,4}(.{1,300}?)(?: \[ .{1,300} \])?$/);
  if (found.length === 0) return null;
  return tests("vitest", { counts: add(found.map((line) => countWords(line, "|"))), failing: broken });
}

/** "Tests:       1 failed, 2 passed, 3 total". */
function jest(lines: readonly string[]): Reading | null {
  const found = lines.filter((line) => /^Tests: {1,12}[\da-z,\s]{1,200}total\s{0,4}$/.test(line));
  if (found.length === 0) return null;
  const failing = matches(lines, /^ {2}● (.{1,300})$/).filter(
    (name) => name.includes(" › ") || !/^Console$/.test(name),
  );
  return tests("jest", { counts: add(found.map((line) => countWords(line.slice(6), ","))), failing });
}

/** "  5 passing (20ms)", "  1 failing", "  2 pending"; then every failure with its number. */
function mocha(lines: readonly string[]): Reading | null {
  const at = (word: string): number => sum(lines, new RegExp(`^ {2}(\\d{1,9}) ${word}(?: \\(\\d{1,9}[a-z]{1,2}\\))?$`));
  if (!lines.some((line) => /^ {2}\d{1,9} passing \(\d{1,9}[a-z]{1,2}\)$/.test(line))) return null;
  const counts = { passed: at("passing"), failed: at("failing"), skipped: at("pending") };
  return tests("mocha", { counts, failing: mochaNames(lines) });
}

/** The suites and then the test, one a line, up to a colon. */
function mochaNames(lines: readonly string[]): readonly string[] {
  const start = lines.findIndex((line) => /^ {2}\d{1,9} failing$/.test(line));
  if (start === -1) return [];
  const names: string[] = [];
  for (let place = start; place < lines.length; place += 1) {
    const [, first] = /^ {2}\d{1,9}\) (.{1,300})$/.exec(lines[place] ?? "") ?? [];
    if (first === undefined) continue;
    const parts = [first];
    for (let next = place + 1; next < place + 9 && parts.at(-1)?.endsWith(":") === false; next += 1)
      parts.push((lines[next] ?? "").trim());
    names.push(parts.join(" > ").replace(/:$/, ""));
  }
  return names;
}

/** "=== 1 failed, 2 passed in 0.12s ===", or the same without the rule. */
function pytest(lines: readonly string[]): Reading | null {
  const found = lines.flatMap((line) => {
    const [, words] =
      /^(?:={1,200} )?((?:\d{1,9} [a-z]{4,12}, ){0,8}\d{1,9} [a-z]{4,12}) in \d{1,9}\.\d{1,4}s(?: \([\d:]{1,12}\))?(?: ={1,200})?$/.exec(
        line,
      ) ?? [];
    return words === undefined ? [] : [countWords(words, ",")];
  });
  if (found.length === 0) return null;
  const failing = matches(lines, /^(?:FAILED|ERROR) (\S{1,300})(?: - .{0,1000})?$/);
  return tests("pytest", { counts: add(found), failing });
}

/** With -v every test is counted; without it only packages report, so they are what is counted. */
function go(lines: readonly string[]): Reading | null {
  const packages = { ok: tally(lines, /^ok {2}\t\S/), failed: matches(lines, /^FAIL\t(\S{1,300})/) };
  if (packages.ok === 0 && packages.failed.length === 0) return null;
  const named = matches(lines, /^\s{0,80}--- FAIL: (\S{1,300})/);
  const unbuilt = matches(lines, /^FAIL\t(\S{1,300}) \[[a-z ]{1,40}\]$/);
  const failing = [...named, ...(named.length === 0 ? packages.failed : unbuilt)];
  if (!lines.some((line) => line.startsWith("=== RUN ")))
    return tests("go test", { counts: { passed: packages.ok, failed: packages.failed.length, skipped: 0 }, failing });
  const passed = tally(lines, /^\s{0,80}--- PASS: /);
  const skipped = tally(lines, /^\s{0,80}--- SKIP: /);
  return tests("go test", { counts: { passed, failed: named.length + unbuilt.length, skipped }, failing });
}

/** One line for each binary: "test result: FAILED. 3 passed; 1 failed; 0 ignored; …". */
function cargo(lines: readonly string[]): Reading | null {
  const found = lines.flatMap((line) => {
    const parts = /^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored;/.exec(line);
    return parts === null ? [] : [{ passed: Number(parts[1]), failed: Number(parts[2]), skipped: Number(parts[3]) }];
  });
  if (found.length === 0) return null;
  return tests("cargo test", { counts: add(found), failing: matches(lines, /^test (.{1,300}) \.\.\. FAILED$/) });
}

const PASSED = new Set(["passed", "xpassed"]);
const FAILED = new Set(["failed", "error", "errors"]);
const SKIPPED = new Set(["skipped", "todo", "pending", "xfailed"]);

/** "1 failed, 2 passed": words that are neither (total, warnings, deselected) count nothing. */
function countWords(line: string, separator: string): TestCounts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const part of line.split(separator)) {
    const [, digits = "", word = ""] = /(\d{1,9}) ([a-z]{1,12})/.exec(part) ?? [];
    if (PASSED.has(word)) counts.passed += Number(digits);
    if (FAILED.has(word)) counts.failed += Number(digits);
    if (SKIPPED.has(word)) counts.skipped += Number(digits);
  }
  return counts;
}

function add(all: readonly TestCounts[]): TestCounts {
  return all.reduce(
    (sum, one) => ({
      passed: sum.passed + one.passed,
      failed: sum.failed + one.failed,
      skipped: sum.skipped + one.skipped,
    }),
    { passed: 0, failed: 0, skipped: 0 },
  );
}

function matches(lines: readonly string[], pattern: RegExp): readonly string[] {
  return lines.flatMap((line) => {
    const found = pattern.exec(line);
    const name = found?.slice(1).find((group) => group !== undefined);
    return name === undefined ? [] : [name.trim()];
  });
}

function sum(lines: readonly string[], pattern: RegExp): number {
  return lines.reduce((total, line) => total + Number(pattern.exec(line)?.[1] ?? 0), 0);
}

function tally(lines: readonly string[], pattern: RegExp): number {
  return lines.reduce((total, line) => total + (pattern.test(line) ? 1 : 0), 0);
}

/** TAP's way to say that a failure is expected or that nothing was tried. */
function isExcused(name: string): boolean {
  return / # (?:skip|todo)\b/i.test(name);
}

function withoutDirective(name: string): string {
  return name.replace(/ # .{0,300}$/, "");
}

function tests(reader: string, params: { readonly counts: TestCounts; readonly failing: readonly string[] }): Reading {
  return { reader, tests: params.counts, failing: params.failing, errors: null, warnings: null };
}

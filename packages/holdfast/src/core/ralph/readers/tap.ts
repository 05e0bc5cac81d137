import { matches, testReading } from "./reading.ts";
import type { Reading } from "./reading.ts";

/** TAP, and what node:test prints. What a runner adds up itself goes before what we would count of the same lines. */
export function readTap(lines: readonly string[]): Reading | null {
  return readSummary(lines) ?? readPoints(lines);
}

/** node:test, tape and others: "# pass 3" or "ℹ pass 3". Several runs add up. */
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

/** Tests at the outermost level. Planned ones that never reported have failed, as the protocol says. */
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
  // A lone "ok" is a word like any other; the plan makes it TAP.
  if (planned === null) return null;
  tests.failed += Math.max(0, planned - tests.passed - tests.failed - tests.skipped);
  const names = matches(lines, /^not ok(?: \d{1,9})?(?: -)? (.{1,300})$/);
  return testReading("tap", { tests, failing: names.filter((name) => !isExcused(name)) });
}

/** TAP's way to say that a failure is expected or that nothing was tried. */
function isExcused(line: string): boolean {
  return / # (?:skip|todo)\b/i.test(line);
}

import type { TestCounts } from "../metrics.ts";

/** What one tool's output says; null where it says nothing. Every pattern looks at one bounded line, and every repetition in it is bounded. */
export interface Reading {
  readonly reader: string;
  readonly tests: TestCounts | null;
  readonly failing: readonly string[];
  readonly errors: number | null;
  readonly warnings: number | null;
}

export function testReading(
  reader: string,
  params: { readonly tests: TestCounts | null; readonly failing: readonly string[] },
): Reading {
  return { reader, ...params, errors: null, warnings: null };
}

/** The first group that took part, of every line that fits. */
export function matches(lines: readonly string[], pattern: RegExp): readonly string[] {
  return lines.flatMap((line) => {
    const name = pattern
      .exec(line)
      ?.slice(1)
      .find((group) => group !== undefined);
    return name === undefined ? [] : [name.trim()];
  });
}

export function tally(lines: readonly string[], pattern: RegExp): number {
  return lines.reduce((total, line) => total + (pattern.test(line) ? 1 : 0), 0);
}

/** "1 failed, 2 passed": words that are neither (total, warnings, deselected) count nothing. */
export function countWords(parts: readonly string[]): TestCounts {
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

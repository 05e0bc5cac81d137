import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_PATTERN, matchesPattern, readPattern } from "./pattern.ts";

function matches(source: string, text: string): boolean {
  const read = readPattern(source);
  if (!read.ok) throw new Error(`${source}: ${read.message}`);
  return matchesPattern(read, text);
}

const letter = fc.constantFrom("a", "b", "C", "1", " ", "_", "-");
const atom = fc.oneof(
  letter.filter((one) => one !== "-"),
  fc.constantFrom(".", "\\d", "\\w", "\\s", "\\W", "[ab]", "[^a]", "[a-c1]", "[^a-c]", "\\.", "[\\d_]"),
);
const { source } = fc.letrec<{ source: string; piece: string }>((tie) => ({
  piece: fc.oneof(
    { maxDepth: 4 },
    atom,
    fc.tuple(atom, fc.constantFrom("*", "+", "?", "{2}", "{1,3}", "{0,}", "*?")).map(([what, times]) => what + times),
    tie("source").map((inner) => `(${inner})`),
    fc.tuple(tie("source"), fc.constantFrom("*", "+", "?", "{2,3}")).map(([inner, times]) => `(?:${inner})${times}`),
    fc.constantFrom("^", "$", "\\b", "\\B"),
  ),
  source: fc.oneof(
    { maxDepth: 4 },
    fc.array(tie("piece"), { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join("")),
    fc.tuple(tie("source"), tie("source")).map((ways) => ways.join("|")),
  ),
}));

test("whatever it can read, it matches as a regular expression does", () => {
  fc.assert(
    fc.property(source, fc.array(letter, { maxLength: 8 }), (pattern, letters) => {
      fc.pre(pattern.length <= MAX_PATTERN);
      const read = readPattern(pattern);
      // Only what would be too large: every piece is one that it knows.
      if (!read.ok) return expect(read.message).toMatch(/add up/);
      const text = letters.join("");
      expect(matchesPattern(read, text), `${pattern} on ${JSON.stringify(text)}`).toBe(
        new RegExp(pattern, "i").test(text),
      );
    }),
    { numRuns: 2_000 },
  );
});

test("patterns that take others for ever end, on a text as long as any", () => {
  const long = `${"a".repeat(20_000)}!`;
  for (const pattern of ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x", "(a?){100}a{100}b", "((a+)+)+$", "(\\w+\\s?)+$"])
    expect(matches(pattern, long), pattern).toBe(false);
  expect(matches("a!$", long)).toBe(true);
  expect(matches("^a", long)).toBe(true);
});

test("the published patterns are read, and find what they are for", () => {
  expect(matches("(ECONNREFUSED|ETIMEDOUT|ENOTFOUND|network|socket)", "connect econnrefused 127.0.0.1:9")).toBe(true);
  expect(matches("(rate.?limit|429|too.?many.?requests)", "HTTP 429: Rate-Limit reached")).toBe(true);
  expect(matches("(unauthorized|403|401|permission.?denied|access.?denied)", "Permission denied (publickey)")).toBe(
    true,
  );
  expect(matches("(API|api).*(error|failed)", "the api call has failed")).toBe(true);
  expect(matches("(not.?found|404|missing|does.?not.?exist)", "all is well")).toBe(false);
});

describe("what it refuses, it says why and where", () => {
  test.each([
    ["", 0, /empty/],
    ["a(b", 1, /no \) closes/],
    ["ab)", 2, /no \( opens/],
    ["[a", 0, /no \] closes/],
    ["*a", 0, /nothing to repeat/],
    ["a**", 2, /cannot be repeated/],
    ["(?=a)", 0, /look around/],
    ["(?<n>a)", 0, /look around/],
    ["(a)\\1", 3, /means nothing/],
    ["a{3,2}", 1, /smaller/],
    ["a{999}", 1, /more than 100/],
    ["a{x}", 1, /expected/],
    ["[z-a]", 1, /backwards/],
    ["a\\", 1, /nothing behind/],
    ["^*", 0, /a place/],
    ["((((a{50}){50}){50}){50})", 0, /add up/],
    ["(".repeat(60) + ")".repeat(60), 40, /deep/],
    ["a".repeat(MAX_PATTERN + 1), MAX_PATTERN, /at most/],
  ])("%s", (pattern, at, message) => {
    expect(readPattern(pattern)).toMatchObject({ ok: false, at, message: expect.stringMatching(message) });
  });

  test("nothing that anybody types makes it throw", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.string({ maxLength: 40 }), (pattern, text) => {
        const read = readPattern(pattern);
        if (read.ok) matchesPattern(read, text);
      }),
    );
  });
});

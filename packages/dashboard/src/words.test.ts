import fc from "fast-check";
import { expect, test } from "vitest";
import type { Budget } from "./api.ts";
import {
  age,
  costWord,
  differenceWord,
  duration,
  gaugesOf,
  localTimes,
  matchScore,
  money,
  partsOf,
  quoteWord,
  resultsWord,
  reveal,
  scoreWord,
  short,
  untilWord,
  webAddress,
  mayRetry,
  refusalTitle,
} from "./words.ts";

test.each([
  [0, "$0"],
  [400, "<$0.001"],
  [37_000, "$0.037"],
  [840_000, "$0.84"],
  [12_000_000, "$12.00"],
])("%i millionths of a dollar: %s", (amount, words) => {
  expect(money(amount)).toBe(words);
});

test.each([
  [120, "120 ms"],
  [4200, "4.2 s"],
  [59_000, "59 s"],
  [240_000, "4 m"],
  [11_520_000, "3 h 12 m"],
  [400_000_000, "5 d"],
])("%i ms: %s", (ms, words) => {
  expect(duration(ms)).toBe(words);
});

test.each([
  [94, "94"],
  [22.727, "22.7"],
  [0, "0"],
])("the score %d is %s, as in the terminal", (score, words) => {
  expect(scoreWord(score)).toBe(words);
});

test("an age has one unit and never runs backwards", () => {
  const at = "2026-11-18T07:00:00.000Z";
  const now = Date.parse(at);
  expect([-5000, 900, 3900, 720_000, 5_400_000, 190_000_000].map((later) => age(at, now + later))).toEqual([
    "now",
    "now",
    "3 s",
    "12 m",
    "1 h",
    "2 d",
  ]);
});

test.each([
  [999, "999"],
  [1234, "1.2k"],
  [13_000, "13k"],
  [2_400_000, "2.4M"],
])("%i: %s", (count, words) => {
  expect(short(count)).toBe(words);
});

test("a gauge without a limit has no bar, and a reserve never leaves the bar", () => {
  const none = { microUsd: null, tokens: null, milliseconds: null };
  const [cost, tokens] = gaugesOf(
    {
      spent: { ...none, microUsd: 900_000, tokens: 10 },
      reserved: { ...none, microUsd: 400_000 },
      limit: { ...none, microUsd: 1_000_000 },
      unknown: { microUsd: 0, tokens: 0 },
      countsSince: null,
    },
    0,
  );
  expect(cost).toMatchObject({ spent: "$0.90", limit: "$1.00", filled: 0.9 });
  expect((cost?.filled ?? 0) + (cost?.reserved ?? 0)).toBeLessThanOrEqual(1);
  expect(tokens).toMatchObject({ limit: null, filled: null });
});

test("unknown amounts are named, and time counts on while a process works", () => {
  const none = { microUsd: 0, tokens: 0, milliseconds: 0 };
  const budget: Budget = {
    spent: { microUsd: 37_000, tokens: null, milliseconds: 60_000 },
    reserved: none,
    limit: { microUsd: null, tokens: null, milliseconds: null },
    unknown: { microUsd: 2, tokens: 2 },
    countsSince: "2026-11-18T07:00:00.000Z",
  };
  const now = Date.parse("2026-11-18T07:03:00.000Z");
  expect(gaugesOf(budget, now).map(({ name, spent }) => `${name} ${spent}`)).toEqual([
    "Cost $0.037 and 2 calls unknown",
    "Tokens unknown",
    "Time 4 m",
  ]);
  expect(costWord(budget)).toBe("$0.037 + 2 unknown");
  expect(costWord({ ...budget, spent: { ...budget.spent, microUsd: null } })).toBe("cost unknown");
  const nothing = { ...budget, spent: none, unknown: { microUsd: 0, tokens: 0 }, countsSince: null };
  expect([gaugesOf(nothing, now), costWord(nothing)]).toEqual([[], ""]);
});

test("a wait ends by itself only if something continues the run", () => {
  const until = "2026-11-18T07:00:00.000Z";
  const at = Date.parse(until);
  expect(untilWord(until, "worker", at - 1)).toMatch(/^until .*, then it continues by itself$/);
  expect(untilWord(until, null, at - 1)).toMatch(/^until .*; nothing continues it then: resume it$/);
  expect(untilWord(until, null, at)).toBe("its time has come; nothing continues it: resume it");
});

test.each([
  ["plain", ["plain"]],
  ["a\tb\nc", ["a\tb\nc"]],
  ["user\u202egnp.exe", ["user", "[U+202E]", "gnp.exe"]],
  ["zero\u200bwidth", ["zero", "[U+200B]", "width"]],
  ["\u0000\u001b[31m", ["[U+0000]", "[U+001B]", "[31m"]],
  ["lone \ud800 half", ["lone ", "[U+D800]", " half"]],
  ["tag \u{e0041}", ["tag ", "[U+E0041]"]],
  ["👩‍🚀 is whole", ["👩‍🚀 is whole"]],
  ["a\u200db", ["a", "[U+200D]", "b"]],
])("%j is shown as %j", (text, pieces) => {
  expect(reveal(text).map(({ text: shown, mark }) => (mark ? `[${shown}]` : shown))).toEqual(pieces);
});

test("a text of nothing but invisible characters has few marks, and names all of them", () => {
  const pieces = reveal("a\u200b".repeat(1000));
  expect(pieces.length).toBeLessThan(200);
  expect(pieces.map(({ text }) => text).join("")).toMatch(/^(?:aU\+200B){50}(?:a\[U\+200B\]){950}$/);
});

test("revealing changes no visible text", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", " ", "\n", "é", "名", "<", "&", '"') }), (text) => {
      expect(
        reveal(text)
          .map((piece) => piece.text)
          .join(""),
      ).toBe(text);
    }),
  );
});

test.each([
  ["https://example.org/x", true],
  ["http://127.0.0.1:3000/", true],
  ["javascript:alert(1)", false],
  ["JAVASCRIPT:alert(1)//https://example.org", false],
  ["file:///etc/passwd", false],
  ["data:text/html,x", false],
  ["https://user:secret@example.org/", false],
  ["//example.org", false],
  ["https://", false],
  [null, false],
])("%s is a link: %s", (url, expected) => {
  expect(webAddress(url) !== null).toBe(expected);
});

test("a match at the start of a word is better than letters here and there", () => {
  const best = (query: string, texts: readonly string[]): string | undefined =>
    texts
      .map((text) => ({ text, score: matchScore(query, text) }))
      .filter((one) => one.score !== null)
      .toSorted((a, b) => (b.score ?? 0) - (a.score ?? 0))[0]?.text;
  expect(best("i42", ["issue-1042 x", "issue-42"])).toBe("issue-42");
  expect(best("login", ["long list of gins", "#42 Login fails"])).toBe("#42 Login fails");
  expect(best("zzz", ["issue-42"])).toBeUndefined();
});

test.each([
  ["holdfast list --all-repositories", ["holdfast list --all-repositories", "", ""]],
  ["holdfast --cwd /a/shop status x", ["holdfast --cwd ", "/a/shop", " status x"]],
  [
    String.raw`holdfast --cwd '/it'\''s mine' --store /s y`,
    ["holdfast --cwd ", String.raw`'/it'\''s mine' --store /s`, " y"],
  ],
])("%s: where it works is one part of it", (command, parts) => {
  expect(partsOf(command)).toEqual(parts);
});

test("no word of a filter becomes another command", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const quoted = quoteWord(text);
      // Outside quotes there are harmless characters and escaped quotes only.
      expect(quoted.replaceAll(/'[^']*'|\\'/g, "")).toMatch(/^[\w@%+=:,./-]*$/);
    }),
  );
});

test("times in sentences are those of the user's clock, and results are words", () => {
  const now = Date.parse("2026-11-18T13:48:20.547Z");
  expect(localTimes("answers again at 2026-11-18T13:48:20.547Z: later", now)).toMatch(
    /^answers again at \d\d:\d\d: later$/,
  );
  expect(resultsWord([false, false])).toBe("failed 2 times, never passed");
  expect(resultsWord([false, true])).toBe("failed, passed");
});

test("a refusal names the run and what cannot be done, and a second try is offered only where it can help", () => {
  const remove = { kind: "remove", run: "shop/issue-1" } as const;
  expect(refusalTitle(remove, { code: "NEEDS_DECISION" })).toBe("issue-1 cannot be removed yet");
  expect(refusalTitle(remove, { code: "NO_SERVER" })).toBe("No plan without the server");
  expect(
    ["NEEDS_DECISION", "USAGE", "STORE_BUSY", "LEASE_HELD", "NO_SERVER"].filter((code) => mayRetry({ code })),
  ).toEqual(["STORE_BUSY", "LEASE_HELD", "NO_SERVER"]);
});

test("where two runs diverged, steps and stages are named as such", () => {
  const [step, stage] = [{ name: "changed" }, { name: "impl (stage)" }];
  expect(differenceWord({ shared: 1, kind: "step", a: step, b: stage })).toBe(
    'the first finished the step "changed", the second the stage "impl"',
  );
  expect(differenceWord({ shared: 1, kind: "result", a: stage, b: stage })).toBe(
    'the stage "impl" had different results',
  );
  expect(differenceWord({ shared: 1, kind: "length", a: null, b: step })).toBe("only the second did more");
});

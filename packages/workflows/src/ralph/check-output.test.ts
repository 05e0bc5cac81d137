import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileText } from "@holdfast/test-support/workflows/ralph-sample";
import { joinMetrics, outputLines, readMetrics } from "./check-output.ts";
import { type Metrics, noMetrics } from "./iteration.ts";

const read = (output: string) => readMetrics(outputLines(output));
const ESC = "\u001B";

/** Output as the tools print it, without irrelevant lines. */
const SPOKEN: Readonly<Record<string, readonly [string, Partial<Metrics>]>> = {
  "vitest, in colour, with a file that does not load": [
    [
      `${ESC}[41m${ESC}[1m FAIL ${ESC}[22m${ESC}[49m b.test.ts${ESC}[2m [ b.test.ts ]${ESC}[22m`,
      `${ESC}[41m${ESC}[1m FAIL ${ESC}[22m${ESC}[49m a.test.ts${ESC}[2m > ${ESC}[22ms${ESC}[2m > ${ESC}[22mbad > worse`,
      `${ESC}[2m Test Files ${ESC}[22m ${ESC}[1m${ESC}[31m2 failed${ESC}[39m${ESC}[22m${ESC}[90m (2)${ESC}[39m`,
      `${ESC}[2m      Tests ${ESC}[22m ${ESC}[1m${ESC}[31m1 failed${ESC}[39m${ESC}[22m${ESC}[2m | ${ESC}[22m${ESC}[32m1 passed${ESC}[39m${ESC}[2m | ${ESC}[22m${ESC}[33m1 skipped${ESC}[39m${ESC}[2m | ${ESC}[22m${ESC}[90m1 todo${ESC}[39m${ESC}[90m (4)${ESC}[39m`,
    ].join("\n"),
    {
      tests: { passed: 1, failed: 2, skipped: 2 },
      failing: { names: ["a.test.ts > s > bad > worse", "b.test.ts"], more: 0 },
      readers: ["vitest"],
    },
  ],
  "vitest, all well": [
    " Test Files  12 passed (12)\n      Tests  340 passed (340)\n   Duration  1.11s\n",
    { tests: { passed: 340, failed: 0, skipped: 0 }, failing: { names: [], more: 0 } },
  ],
  "vitest without a test": [" Test Files  no tests\n      Tests  no tests", { tests: null, readers: ["vitest"] }],
  jest: [
    "FAIL src/sum.test.js\n  ● Console\n\n  ● sum › adds\n\n    expect(received)\n\nTest Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 1 skipped, 1 todo, 12 passed, 15 total\r\nSnapshots:   0 total",
    { tests: { passed: 12, failed: 1, skipped: 2 }, failing: { names: ["sum › adds"], more: 0 }, readers: ["jest"] },
  ],
  mocha: [
    "  suite\n    1) breaks\n\n\n  5 passing (20ms)\n  2 pending\n  2 failing\n\n  1) suite\n       inner\n         breaks:\n     AssertionError\n\n  2) alone:\n     Error: x\n",
    {
      tests: { passed: 5, failed: 2, skipped: 2 },
      failing: { names: ["alone", "suite > inner > breaks"], more: 0 },
      readers: ["mocha"],
    },
  ],
  "node:test as TAP, with its own sums": [
    "TAP version 13\n    ok 1 - works\n    not ok 2 - breaks\n    not ok 3 - some day # TODO\n    1..3\nnot ok 1 - suite\n1..1\n# tests 5\n# suites 1\n# pass 1\n# fail 2\n# cancelled 1\n# skipped 1\n# todo 1\n# duration_ms 260.3",
    { tests: { passed: 1, failed: 3, skipped: 2 }, failing: { names: ["breaks", "suite"], more: 0 }, readers: ["tap"] },
  ],
  "node:test for people": [
    "▶ suite\n  ✔ works (0.7ms)\n  ✖ breaks (0.867691ms)\n✖ suite (8.7ms)\nℹ tests 5\nℹ suites 1\nℹ pass 4\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n\n✖ failing tests:\n\ntest at a.test.mjs:2:50\n✖ breaks (0.9ms)",
    { tests: { passed: 4, failed: 1, skipped: 0 }, failing: { names: ["breaks", "suite"], more: 0 } },
  ],
  "TAP whose plan was not kept": [
    "1..5\nok 1 - a\nok 2 # skip not here\nnot ok 3 - c\nnot ok 4 - d # TODO later\nBail out!",
    { tests: { passed: 1, failed: 2, skipped: 2 }, failing: { names: ["c"], more: 0 }, readers: ["tap"] },
  ],
  pytest: [
    "FAILED test_a.py::test_bad - assert 1 == 2\nFAILED test_a.py::test_p[a b] - AssertionError: assert 'a b' == 'c'\nERROR test_b.py\n====== 2 failed, 2 passed, 1 skipped, 1 xfailed, 3 warnings, 1 error in 6.41s (0:00:06) =======",
    {
      tests: { passed: 2, failed: 3, skipped: 2 },
      failing: { names: ["test_a.py::test_bad", "test_a.py::test_p[a b]", "test_b.py"], more: 0 },
      warnings: null,
      readers: ["pytest"],
    },
  ],
  "pytest, quiet": ["....\n4 passed in 0.02s", { tests: { passed: 4, failed: 0, skipped: 0 } }],
  "go test -v": [
    "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    --- FAIL: TestB/deep (0.00s)\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample.com/x\t0.004s\nFAIL\texample.com/y [build failed]\nok  \texample.com/z\t0.1s",
    {
      tests: { passed: 1, failed: 3, skipped: 1 },
      failing: { names: ["TestB", "TestB/deep", "example.com/y"], more: 0 },
      readers: ["go test"],
    },
  ],
  "go test, by package": [
    "--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/x\t0.004s\nok  \texample.com/z\t(cached)\n?   \texample.com/w\t[no test files]",
    { tests: { passed: 1, failed: 1, skipped: 0 }, failing: { names: ["TestB"], more: 0 } },
  ],
  "cargo test, two binaries": [
    "test tests::bad ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.53s\n\nerror: test failed, to rerun pass `--lib`\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    {
      tests: { passed: 4, failed: 1, skipped: 1 },
      errors: null,
      failing: { names: ["tests::bad"], more: 0 },
      readers: ["cargo test"],
    },
  ],
  "a crate that does not build": [
    "error[E0425]: cannot find value `foo` in this scope\nerror[E0308]: mismatched types\nerror: could not compile `c` (lib) due to 2 previous errors",
    { tests: null, errors: 2, readers: ["rustc"] },
  ],
  "tsc, plain": [
    "bad.ts(1,7): error TS2322: Type 'string' is not assignable.\nbad.ts(9,7): error TS2322: Again.\nerror TS5023: Unknown option.",
    { errors: 3, failing: { names: ["TS5023", "bad.ts: TS2322"], more: 0 }, readers: ["tsc"] },
  ],
  "tsc, pretty: listed and added up, counted once": [
    `${ESC}[96mbad.ts${ESC}[0m:${ESC}[93m1${ESC}[0m:${ESC}[93m7${ESC}[0m - ${ESC}[91merror${ESC}[0m${ESC}[90m TS2322: ${ESC}[0mType.\n${ESC}[96mb.ts${ESC}[0m:1:7 - error TS1: x\n\nFound 2 errors in 2 files.\n\nErrors  Files`,
    { errors: 2, failing: { names: ["b.ts: TS1", "bad.ts: TS2322"], more: 0 }, readers: ["tsc"] },
  ],
  eslint: ["✖ 3 problems (2 errors, 1 warning)", { tests: null, errors: 2, warnings: 1, readers: ["eslint"] }],
  oxlint: ["Found 4 warnings and 1 error.", { errors: 1, warnings: 4, readers: ["oxlint"] }],
  mypy: ["Found 3 errors in 1 file (checked 2 source files)", { errors: 3, readers: ["errors found"] }],
  "two tools after each other": [
    "✖ 3 problems (2 errors, 1 warning)\n      Tests  1 failed | 2 passed (3)",
    { tests: { passed: 2, failed: 1, skipped: 0 }, errors: 2, warnings: 1, readers: ["eslint", "vitest"] },
  ],
};

test.each(Object.entries(SPOKEN))("%s", (_, [output, expected]) => {
  expect(read(output)).toMatchObject(expected);
});

describe("unknown output", () => {
  test.each([
    "",
    "ok",
    "ok 1 is the loneliest number",
    "3 tests failed, sorry",
    "Tests: all of them passed",
    "5 passing clouds",
    "error: something",
    "Found 2 cats",
    "test result: probably fine",
  ])("%j has no metrics", (output) => {
    expect(read(output)).toEqual(noMetrics);
  });
});

describe("any output", () => {
  const pieces = fc.constantFrom(
    ...Object.values(SPOKEN).map(([output]) => output),
    "✖ ",
    " FAIL  ",
    "not ok ",
    "1..999999",
    "# pass 999999999",
    "# tests 1",
    "9".repeat(400),
    "\u001B[",
    "\r",
    " [ ",
  );
  test("is parsed without an exception, into bounded JSON", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, hostileText(40)), { maxLength: 12 }), (parts) => {
        for (const glue of ["", "\n"]) {
          const metrics = read(parts.join(glue));
          expect(JSON.parse(JSON.stringify(metrics))).toEqual(metrics);
          expect(metrics.failing.names).toEqual([...new Set(metrics.failing.names)].toSorted());
          for (const count of Object.values(metrics.tests ?? {})) expect(Number.isSafeInteger(count)).toBe(true);
        }
      }),
    );
  });

  // A backtracking pattern would take practically forever on each of these: the suite's own timeout is the check.
  test.each([
    ["one endless line", "a".repeat(3_000_000)],
    ["spaces", " ".repeat(1_000_000)],
    ["colours that never end", "\u001B[1;".repeat(300_000)],
    ["lines that nearly fit", `${" FAIL  a > b [ ".repeat(60)}\n`.repeat(1_000)],
    ["numbers", `${"1 passed, ".repeat(90)}in 1.1s\n`.repeat(1_000)],
    ["equal signs", `${"=".repeat(900)} 1 passed\n`.repeat(1_000)],
    ["ticks", `✖ ${"(1ms) ".repeat(150)}\n`.repeat(1_000)],
    ["empty lines", "\n".repeat(1_000_000)],
  ])("%s", (_, hostile) => {
    expect(read(hostile).tests).toBeNull();
  });

  test("only its end is parsed", () => {
    const [said, line] = ["4 passed in 0.02s\n", `${"y".repeat(99)}\n`];
    expect(read(said + line.repeat(9_900)).tests).not.toBeNull();
    expect(read(said + line.repeat(10_100)).tests).toBeNull();
    expect(read(`${said}${"\n".repeat(30_000)}`).tests).toBeNull();
  });

  test("fifteen thousand failures are counted and two hundred named", () => {
    const lines = Array.from({ length: 15_000 }, (_, n) => ` FAIL  t > ${n}`);
    const { failing } = read([...lines, "      Tests  15000 failed (15000)"].join("\n"));
    expect(failing.names).toHaveLength(200);
    expect(failing.more).toBe(14_800);
  });
});

test("joined metrics keep known values, and nothing is invented", () => {
  const [a, b] = [read("✖ 1 problem (1 error, 0 warnings)"), read("4 passed in 0.02s")];
  expect(joinMetrics([])).toEqual(noMetrics);
  expect(joinMetrics([noMetrics, noMetrics])).toEqual(noMetrics);
  expect(joinMetrics([a, b, noMetrics])).toEqual(joinMetrics([b, a]));
  expect(joinMetrics([a, b])).toMatchObject({ errors: 1, tests: { passed: 4 }, readers: ["eslint", "pytest"] });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileText } from "@holdfast/test-support/workflows/ralph-sample";
import { type EndedCheck, readVerification } from "./verify.ts";

const check = (given: Partial<EndedCheck> = {}): EndedCheck => ({
  command: "npm test",
  kind: "exited",
  code: 1,
  output: "",
  milliseconds: 5,
  ...given,
});
const read = (planned: number, ...ended: readonly EndedCheck[]) => readVerification({ number: 3, planned, ended });
const signature = (output: string, given: Partial<EndedCheck> = {}) => read(1, check({ output, ...given })).signature;

describe("the exit code alone decides", () => {
  test.each([
    ["all passed", 2, [check({ code: 0 }), check({ code: 0 })], "passed"],
    ["one failed", 2, [check({ code: 0 }), check({ code: 2 })], "failed"],
    ["the first failed and the rest was not tried", 2, [check()], "failed"],
    ["it took too long", 1, [check({ kind: "timed_out", code: null })], "failed"],
    ["killed", 1, [check({ code: null })], "failed"],
    ["not started", 1, [check({ kind: "not_started", code: null })], "not_run"],
    ["interrupted", 1, [check({ kind: "interrupted", code: null })], "not_run"],
    ["one passed, the other was never run", 2, [check({ code: 0 })], "not_run"],
    ["nothing to check", 0, [], "unchecked"],
    ["a lie in the output", 1, [check({ output: "      Tests  9 passed (9)" })], "failed"],
    ["another one", 1, [check({ code: 0, output: "      Tests  9 failed (9)" })], "passed"],
  ] as const)("%s", (_, planned, ended, verdict) => {
    expect(read(planned, ...ended).verdict).toBe(verdict);
  });

  test("only a failure has a signature and an excerpt", () => {
    expect(read(1, check({ code: 0, output: "fine" }))).toMatchObject({ signature: null, checks: [{ excerpt: "" }] });
    expect(read(1, check({ kind: "not_started", code: null, output: "no such file" }))).toMatchObject({
      signature: null,
      checks: [{ excerpt: "no such file" }],
    });
  });
});

test.each([
  ["no output", { output: "" }],
  ["blank lines", { output: " \n\t\n\n" }],
  ["colours and carriage returns", { output: "\u001B[31m\u001B[0m\r\n" }],
  ["no output until the time was over", { kind: "timed_out", code: null } as const],
])("a silent failure is failed without a signature: %s", (_, given) => {
  expect(read(1, check(given))).toMatchObject({ verdict: "failed", signature: null, checks: [{ signature: null }] });
  // Beside a check that prints something, that one identifies the failure.
  expect(read(2, check(given), check({ output: "no" })).signature).toBe(signature("no"));
});

describe("a failure's signature", () => {
  const failure = "Error: expected 3 to be 4\n  at run (/work/src/a.ts:10:5)\n";
  test("does not depend on time and path", () => {
    const first = signature(
      `${failure}done in 1.23s at 10:11:12 in /tmp/x1/y, thread 'a' (7666) panicked at 0xdeadbeef`,
    );
    expect(
      signature(
        `done in 456ms at 23:59:01 in /tmp/zz/y, thread 'a' (123456) panicked at 0x12\n${failure.replace("10:5", "99:1")}`,
      ),
    ).not.toBeNull();
    expect(signature(`${failure}done in 456ms at 23:59:01 in /tmp/zz/y, thread 'a' (123456) panicked at 0x12`)).toBe(
      first,
    );
    expect(signature(failure.replace("10:5", "99:1"))).toBe(signature(failure));
  });

  test("does not depend on the order of lines, nor on lines without a failure", () => {
    const lines = ["Error: a", "assert b failed", "expected c"];
    expect(signature(lines.join("\n"))).toBe(signature([...lines, "compiling 3 of 4"].toReversed().join("\n")));
  });

  const many = Array.from({ length: 100 }, (_, n) => `Error: ${n}`).join("\n");
  test.each([
    ["another message", "Error: a", "Error: b"],
    ["fewer problems", "✖ 12 problems (12 errors, 0 warnings)", "✖ 10 problems (10 errors, 0 warnings)"],
    ["fewer failing tests, without names", "  1 passing (9ms)\n  3 failing", "  1 passing (9ms)\n  2 failing"],
    [
      "fewer problems, after more lines than are looked at",
      `${many}\n✖ 12 problems (12 errors, 0 warnings)`,
      `${many}\n✖ 10 problems (10 errors, 0 warnings)`,
    ],
    ["a count after a colon", "failures:3, errors:1", "failures:2, errors:1"],
    ["another test", " FAIL  a > x\n Tests  1 failed (1)", " FAIL  a > y\n Tests  1 failed (1)"],
    ["a count of an unknown tool", "Error: 8 rules broken", "Error: 7 rules broken"],
    ["output of an unknown tool", "sad", "sadder"],
  ])("differs for %s", (_, before, after) => {
    expect(signature(before)).not.toBe(signature(after));
  });

  test("differs for another exit code", () => {
    expect(signature("x", { code: 1 })).not.toBe(signature("x", { code: 2 }));
  });
});

describe("the excerpt of the output", () => {
  test("has the first problem, and the end", () => {
    const noise = "noise\n".repeat(5_000);
    const [kept] = read(1, check({ output: `${noise} FAIL  a.test.ts > here\n${noise}Tests  1 failed (1)` })).checks;
    expect(kept?.excerpt).toContain("a.test.ts > here");
    expect(kept?.excerpt.endsWith("Tests  1 failed (1)")).toBe(true);
  });

  test("has no secrets", () => {
    const token = `ghp_${"a1B2".repeat(9)}`;
    expect(JSON.stringify(read(1, check({ output: `error: token ${token} refused` })))).not.toContain(token);
    expect(JSON.stringify(read(1, check({ output: `FAILED a.py::t[${token}]\n1 failed in 0.1s` })))).not.toContain(
      token,
    );
    // No part of the secret may remain, wherever the cut falls.
    for (let before = 0; before < 50; before += 1) {
      const output = `${"x".repeat(900)}\n${token}${" ".repeat(5_990 - before)}end`;
      expect(JSON.stringify(read(1, check({ output })))).not.toContain("a1B2a1B2");
    }
  });

  test("is bounded and JSON, for any output", () => {
    const hostile = fc.oneof(
      hostileText(60),
      fc.string({ maxLength: 8 }).map((s) => s.repeat(5_000)),
    );
    fc.assert(
      fc.property(hostile, fc.nat({ max: 300 }), (output, code) => {
        const verification = read(1, check({ output, code }));
        const stored = JSON.stringify(verification);
        expect(JSON.parse(stored)).toEqual(verification);
        expect(verification.checks[0]?.excerpt.length).toBeLessThanOrEqual(6_100);
        expect(verification.verdict).toBe(code === 0 ? "passed" : "failed");
      }),
      { numRuns: 50 },
    );
  });
});

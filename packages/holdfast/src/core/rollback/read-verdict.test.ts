import { describe, expect, test } from "vitest";
import { agentFailure, eventVerdict, isOutside, stepVerdict } from "./read-verdict.ts";

describe("the end of a stage", () => {
  const event = (name: string) => eventVerdict({ stage: "verify", event: name, reason: "r" });

  test.each([
    ["review_pass", "review", true],
    ["ci_fail", "ci", false],
    ["pr_fail_fixable", "pr", false],
    ["passed", "verify", true],
    ["failed", "verify", false],
    ["tests.regressed", "tests", false],
  ] as const)("%s is a verdict on %s", (name, check, pass) => {
    expect(event(name)).toEqual({ name: check, pass, reason: "r" });
  });

  test.each(["impl_done", "impl_not_done", "setup_done", "fatal", "ci_conflict", "passing_by", "bypass"])(
    "%s says nothing about the files",
    (name) => {
      expect(event(name)).toBeNull();
    },
  );
});

describe("a finished step", () => {
  test("how a command ended; interrupted and not started say nothing", () => {
    expect(stepVerdict("gate", { kind: "exited", code: 0, output: "" })).toMatchObject({ name: "gate", pass: true });
    expect(stepVerdict("gate", { kind: "exited", code: 2, output: "" })).toMatchObject({
      pass: false,
      reason: "gate failed with exit 2",
    });
    expect(stepVerdict("gate", { kind: "exited", code: null })).toMatchObject({ pass: false });
    expect(stepVerdict("gate", { kind: "timed_out", code: null })).toMatchObject({ pass: false });
    expect(stepVerdict("gate", { kind: "interrupted", code: null })).toBeNull();
    expect(stepVerdict("gate", { kind: "not_started", code: null })).toBeNull();
  });

  test("what a parser said of each file", () => {
    const parsed = { kind: "parsed", path: "a", by: "node" };
    expect(stepVerdict("parse", [parsed, { kind: "skipped", path: "b" }])).toMatchObject({ pass: true });
    expect(stepVerdict("parse", [parsed, { kind: "failed", path: "b" }])).toMatchObject({ pass: false });
    expect(stepVerdict("parse", [])).toBeNull();
    expect(stepVerdict("parse", [{ kind: "skipped" }])).toBeNull();
    expect(stepVerdict("list", ["a", "b"])).toBeNull();
  });

  test("a plain yes or no, and anything else", () => {
    expect(stepVerdict("lint", { passed: false, reason: "3 errors" })).toMatchObject({
      pass: false,
      reason: "3 errors",
    });
    expect(stepVerdict("lint", { pass: true })).toMatchObject({ pass: true });
    for (const other of [null, 1, "passed", {}, { pass: "yes" }, { kind: "done", receipt: 1 }])
      expect(stepVerdict("x", other)).toBeNull();
  });
});

test("a call of an agent that failed, whatever the cause, is no verdict on the files", () => {
  const report = { outcome: "failed", cause: "overload", message: "Overloaded", usage: {} };
  expect(agentFailure(report)).toBe("The agent failed (overload): Overloaded");
  expect(stepVerdict("agent", report)).toBeNull();
  expect(agentFailure({ ...report, outcome: "completed" })).toBeNull();
  expect(agentFailure({ outcome: "failed" })).toBeNull();
});

test.each([
  "HTTP 429",
  "connect ECONNREFUSED 127.0.0.1:1",
  "Rate limit reached",
  "no space left on device",
  "Overloaded",
])("nobody's fault: %s", (reason) => {
  expect(isOutside(reason)).toBe(true);
});
test.each(["TypeError: x is not a function", "exit 1", "4290 lines", "assertion failed"])("not: %s", (reason) => {
  expect(isOutside(reason)).toBe(false);
});

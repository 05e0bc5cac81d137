import { describe, expect, test } from "vitest";
import { completionMarker, isComplete, isRoundDone, parseFinalize } from "./implement.ts";

const now = { issue: 42, iteration: 3, run: "issue-42-k3f9", stageAttempt: 7 };
const marker = completionMarker(now);

describe("stale completion marker", () => {
  test.each([
    ["another iteration", { ...now, iteration: 2 }],
    ["another stage attempt of the same iteration", { ...now, stageAttempt: 6 }],
    ["another run of the same issue", { ...now, run: "issue-42-zzzz" }],
    ["another issue", { ...now, issue: 4 }],
  ])("of %s never counts", (_, before) => {
    expect(isComplete(`[feat][#42] x\n\n${completionMarker(before)}\n`, marker)).toBe(false);
  });

  test.each([
    ["nothing", null],
    ["the bare words of other tools", "Issue 42 resolved"],
    ["a denial", `NOT: ${marker}`],
    ["a sentence around it", `I will write "${marker}" when it is done`],
  ])("%s is not a marker", (_, text) => {
    expect(isComplete(text, marker)).toBe(false);
  });

  test.each([`${marker}`, `title\r\n\r\n${marker}\r\n`, `  ${marker}  \nmore`])(
    "a marker on its own line counts: %j",
    (text) => {
      expect(isComplete(text, marker)).toBe(true);
    },
  );
});

describe("a round is done", () => {
  const completed = (agent?: string) => ({ outcome: "completed", ...(agent === undefined ? {} : { agent }) }) as const;
  const crashed = { outcome: "failed", agent: "command:x" } as const;

  test.each([
    ["an agent that writes the marker", completed("claude:opus"), marker, null, true],
    ["an agent that does not", completed("claude:opus"), "[feat] x", null, false],
    ["a command that exits with 0", completed("command:sh work.sh"), null, null, true],
    ["a command that fails", crashed, null, null, false],
    ["a command as the fallback of an agent", completed("command:x"), null, "claude", true],
    ["an agent as the fallback of a command", completed("codex"), null, "command:x", false],
    ["a result of an older version", completed(), null, "command:x", true],
  ])("%s: %#", (_, report, finalize, named, done) => {
    expect(isRoundDone(report, { finalize, marker, named })).toBe(done);
  });
});

describe("title and body", () => {
  test("the first line is the title, the rest the body, and no marker is in either", () => {
    const stale = completionMarker({ ...now, iteration: 1 });
    expect(parseFinalize(`\n[feat][#42] Add x\n\nWhy.\n\n${stale}\nMore.\n${marker}\n`)).toEqual({
      title: "[feat][#42] Add x",
      body: "Why.\n\nMore.",
    });
  });

  test("a marker alone leaves no title", () => {
    expect(parseFinalize(marker)).toEqual({ title: null, body: "" });
  });

  test("a sentence that mentions the issue stays", () => {
    expect(parseFinalize("t\nIssue 42 resolved a problem").body).toBe("Issue 42 resolved a problem");
  });
});

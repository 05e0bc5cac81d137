import { describe, expect, test } from "vitest";
import { completionMarker, isComplete, parseFinalize } from "./implement.ts";

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
  ])("%s is no marker", (_, text) => {
    expect(isComplete(text, marker)).toBe(false);
  });

  test.each([`${marker}`, `title\r\n\r\n${marker}\r\n`, `  ${marker}  \nmore`])(
    "a line of its own counts: %j",
    (text) => {
      expect(isComplete(text, marker)).toBe(true);
    },
  );
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

  test("a sentence that speaks of the issue stays", () => {
    expect(parseFinalize("t\nIssue 42 resolved a problem").body).toBe("Issue 42 resolved a problem");
  });
});

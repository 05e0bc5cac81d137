import { expect, test } from "vitest";
import { parseBranchName } from "./format.ts";

test.each(["feature/issue-42-jwt-refresh", "fix/issue-1", "a", "release-1.2", "x".repeat(200)])(
  "%j is a branch name",
  (name) => {
    expect(parseBranchName(name)).toBe(name);
  },
);

test.each([
  "",
  "-x",
  "--upload-pack=x",
  "../main",
  "a..b",
  "a//b",
  "a/.b",
  "a.lock",
  "a.lock/b",
  "a.",
  "a/",
  "refs/heads/x",
  "HEAD",
  "x\0y",
  "a b",
  "a:b",
  "a@{1}",
  "b".repeat(10_000),
])("%j is not", (name) => {
  expect(parseBranchName(name)).toBeNull();
});

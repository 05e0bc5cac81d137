import { expect, test } from "vitest";
import { filesText, nextText } from "./take.ts";

test("a dry run says that `take` fetches missing files, and only a fetch that failed asks for a push", () => {
  const files = { missing: [4, 3], here: "issue-1@2", remote: "git@host:shop.git", problem: null };
  const plan = { files, saved: "issue-1@4", orphan: "issue-1-orphan-1" };
  expect(nextText("issue-1", plan, true)).toBe(
    "`holdfast take issue-1` fetches missing files from git@host:shop.git first.",
  );
  const push = expect.stringContaining("`holdfast store push issue-1` there") as string;
  expect(nextText("issue-1", plan)).toEqual(push);
  expect(nextText("issue-1", { ...plan, files: { ...files, remote: null } }, true)).toEqual(push);
});

test("the plan says in sentences which files are here", () => {
  const files = { missing: [3, 2], here: "issue-8@1", remote: null, problem: null };
  expect([
    filesText({ ...files, missing: [] }),
    filesText(files),
    filesText({ ...files, missing: [2], remote: "origin" }),
    filesText({ ...files, missing: [3, 2, 1], here: null, problem: "network: no answer in time" }),
  ]).toEqual([
    "The files of issue-8@1 are here.",
    "The files of issue-8@1 are here. Those of 2 newer checkpoints are not (files.remote is not set).",
    "The files of issue-8@1 are here. Those of 1 newer checkpoint are not (origin did not have them when asked).",
    "The files of 3 checkpoints are not here (network: no answer in time).",
  ]);
});

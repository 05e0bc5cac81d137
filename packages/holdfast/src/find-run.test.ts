import { expect, test } from "vitest";
import { parseFindTarget } from "./find-run.ts";

test.each([
  ["#12", 12, null],
  ["!12", 12, null],
  ["12", 12, null],
  ["https://github.com/o/r/pull/12", 12, "https://github.com/o/r/pull/12"],
  ["https://github.com/o/r/pull/12/files#x", 12, "https://github.com/o/r/pull/12"],
  ["https://gitlab.com/g/p/-/merge_requests/3?tab=x", 3, "https://gitlab.com/g/p/-/merge_requests/3"],
])("%s names a pull request", (text, number, url) => {
  expect(parseFindTarget(text)).toEqual({ kind: "pull_request", number, url });
});

test.each(["HEAD", "012", "12a", "3f2a91c", "--all", "https://github.com/o/r/issues/12"])(
  "%s names a commit",
  (name) => {
    expect(parseFindTarget(name)).toEqual({ kind: "commit", name });
  },
);

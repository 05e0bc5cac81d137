import { expect, test } from "vitest";
import { checkRunState, classifyPullError, githubApiRoot, githubTokenVariables, mergeabilityOf } from "./github.ts";

test.each([
  [true, "clean", false, "mergeable"],
  [true, "unstable", false, "mergeable"],
  [true, "has_hooks", false, "mergeable"],
  [true, "behind", false, "behind"],
  [true, "blocked", false, "blocked"],
  [true, "draft", true, "blocked"],
  [true, "clean", true, "blocked"],
  [false, "dirty", false, "conflicting"],
  [false, "unknown", true, "conflicting"],
  [null, "unknown", false, "unknown"],
  [null, "clean", false, "unknown"],
  [undefined, undefined, false, "unknown"],
  [true, "a future value", false, "unknown"],
] as const)("mergeable %j, %j, draft %j: %s", (mergeable, mergeable_state, draft, expected) => {
  expect(mergeabilityOf({ mergeable, mergeable_state, draft })).toBe(expected);
});

test.each([
  ["queued", null, "pending"],
  ["in_progress", null, "pending"],
  ["waiting", null, "pending"],
  ["completed", "success", "passed"],
  ["completed", "neutral", "skipped"],
  ["completed", "skipped", "skipped"],
  ["completed", "stale", "pending"],
  ["completed", "failure", "failed"],
  ["completed", "timed_out", "failed"],
  ["completed", "cancelled", "failed"],
  ["completed", "action_required", "failed"],
  ["completed", "startup_failure", "failed"],
  ["completed", "a future value", "failed"],
  ["completed", null, "failed"],
] as const)("a check that is %s with %j is %s", (status, conclusion, expected) => {
  expect(checkRunState({ status, conclusion })).toBe(expected);
});

test.each([
  ["Validation Failed: A pull request already exists for octo:topic.", [], "exists"],
  ["Validation Failed: No commits between main and octo:topic", [], "nothing_new"],
  ["Validation Failed", [{ resource: "PullRequest", field: "head", code: "invalid" }], "head_missing"],
  ["Validation Failed", [{ resource: "PullRequest", field: "base", code: "invalid" }], "base_missing"],
  ["Draft pull requests are not supported in this repository.", [], "drafts_off"],
  ["A message of a later version", ["in words"], "refused"],
])("%s", (message, errors, why) => {
  expect(classifyPullError({ message, body: { message, errors } }).why).toBe(why);
});

test("API address and its token", () => {
  expect(["github.com", "tenant.ghe.com", "ghe.example.com"].map(githubApiRoot)).toEqual([
    "https://api.github.com",
    "https://api.tenant.ghe.com",
    "https://ghe.example.com/api/v3",
  ]);
  expect(["github.com", "ghe.example.com"].map((host) => githubTokenVariables(host)[0])).toEqual([
    "GH_TOKEN",
    "GH_ENTERPRISE_TOKEN",
  ]);
});

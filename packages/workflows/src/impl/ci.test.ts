import { describe, expect, test } from "vitest";
import type { Checks, Mergeability, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { decideCi, openChangeRequests } from "./ci.ts";

describe("ci decision", () => {
  const open: PullRequest = {
    number: 7,
    url: "u",
    title: "t",
    body: "",
    state: "open",
    draft: false,
    head: "h",
    headCommit: "c0ffee",
    base: "main",
    labels: [],
    mergeability: "mergeable",
  };
  const run = { name: "tests", state: "failed", url: "http://ci/1", summary: "1 failed\n" } as const;
  const checks = (state: Checks["state"]): Checks => ({ state, runs: state === "failed" ? [run] : [] });
  const decide = (given: Partial<Parameters<typeof decideCi>[0]>) =>
    decideCi({
      pullRequest: open,
      checks: checks("passed"),
      requests: [],
      commit: "c0ffee",
      rebaseWhenBehind: false,
      noneBefore: true,
      ...given,
    });

  describe("conflict state misread", () => {
    const table: readonly (readonly [Mergeability, Checks["state"], string])[] = [
      ["mergeable", "passed", "pass"],
      ["mergeable", "none", "pass"],
      ["mergeable", "pending", "wait"],
      ["mergeable", "failed", "fail"],
      ["conflicting", "passed", "conflict"],
      ["conflicting", "none", "conflict"],
      ["conflicting", "failed", "conflict"],
      ["behind", "passed", "pass"],
      ["behind", "failed", "fail"],
      ["blocked", "passed", "pass"],
      ["blocked", "pending", "wait"],
      ["unknown", "passed", "wait"],
      ["unknown", "none", "wait"],
      ["unknown", "failed", "fail"],
    ];
    test.each(table)("%s with checks %s: %s", (mergeability, state, kind) => {
      expect(decide({ pullRequest: { ...open, mergeability }, checks: checks(state) }).kind).toBe(kind);
    });

    test("behind is a reason to rebase only if the repository requires it", () => {
      const behind = { ...open, mergeability: "behind" } as const;
      expect(decide({ pullRequest: behind, rebaseWhenBehind: true }).kind).toBe("conflict");
    });
  });

  describe("a look at CI", () => {
    test("missing checks right after a push are requested once more", () => {
      expect(decide({ checks: checks("none"), noneBefore: false }).kind).toBe("wait");
    });
    test("merged is done, closed and missing are not", () => {
      expect(decide({ pullRequest: { ...open, state: "merged", mergeability: "unknown" } }).kind).toBe("pass");
      expect(decide({ pullRequest: { ...open, state: "closed" } }).kind).toBe("closed");
      expect(decide({ pullRequest: null }).kind).toBe("gone");
    });
    test("checks of another commit decide nothing", () => {
      expect(decide({ commit: "other" }).kind).toBe("moved");
    });
    test("a failure gives the agent the failed check and its output", () => {
      expect(decide({ checks: checks("failed") })).toMatchObject({
        reason: "Checks of Pull request #7 failed: tests",
        feedback: expect.stringMatching(/tests \(http:\/\/ci\/1\):\n1 failed/),
      });
    });
  });

  describe("change requests of users", () => {
    const asked = {
      id: "9",
      author: "ada",
      byPerson: true,
      state: "changes_requested",
      commit: null,
      at: null,
    } as const;
    const requests = [{ ...asked, body: "Say it louder." }];

    test("go back with their text, whether checks passed or are pending, and with the failed checks", () => {
      for (const state of ["passed", "pending", "none"] as const)
        expect(decide({ requests, checks: checks(state) })).toEqual({
          kind: "fail",
          reason: "Changes of Pull request #7 were asked for by ada",
          feedback: "Changes of Pull request #7 were asked for by ada.\n\nada:\nSay it louder.",
          appliedReviews: ["9"],
        });
      const both = decide({ requests, checks: checks("failed") });
      expect(both).toMatchObject({ kind: "fail", appliedReviews: ["9"] });
      expect(both).toMatchObject({
        feedback: expect.stringMatching(/Say it louder[^]*tests \(http:\/\/ci\/1\):\n1 failed/),
      });
    });

    test("a conflict comes first, and a merged or closed pull request is not checked any more", () => {
      expect(decide({ requests, pullRequest: { ...open, mergeability: "conflicting" } }).kind).toBe("conflict");
      expect(decide({ requests, pullRequest: { ...open, state: "merged" } }).kind).toBe("pass");
      expect(decide({ requests, pullRequest: { ...open, state: "closed" } }).kind).toBe("closed");
    });
  });
});

describe("open change requests", () => {
  const review = (
    id: string,
    author: string,
    state: PullRequestReview["state"],
    byPerson = true,
  ): PullRequestReview => ({
    id,
    author,
    byPerson,
    state,
    body: `${author} says`,
    commit: null,
    at: null,
  });
  const openRequests = (reviews: readonly PullRequestReview[], handled: readonly string[] = []): readonly string[] =>
    openChangeRequests(reviews, handled).map(({ id }) => id);

  test("a request for changes is open until its author decides otherwise or it is dismissed", () => {
    const asked = review("1", "ada", "changes_requested");
    expect(openRequests([asked])).toEqual(["1"]);
    expect(openRequests([asked, review("2", "ada", "commented")])).toEqual(["1"]);
    expect(openRequests([asked, review("2", "bob", "approved")])).toEqual(["1"]);
    expect(openRequests([asked, review("2", "ada", "approved")])).toEqual([]);
    expect(openRequests([{ ...asked, state: "dismissed" }])).toEqual([]);
    expect(openRequests([review("0", "ada", "approved"), asked])).toEqual(["1"]);
  });

  test("of two by one author the newer counts, each author separately, and no bot", () => {
    const asked = ["1", "2"].map((id) => review(id, "ada", "changes_requested"));
    expect(openRequests(asked)).toEqual(["2"]);
    expect(openRequests([...asked, review("3", "bob", "changes_requested")])).toEqual(["2", "3"]);
    expect(openRequests([review("1", "lint", "changes_requested", false)])).toEqual([]);
  });

  test("a handled one is not reported again; a newer one by the same author is", () => {
    const asked = review("1", "ada", "changes_requested");
    expect(openRequests([asked], ["1"])).toEqual([]);
    expect(openRequests([asked, review("2", "ada", "changes_requested")], ["1"])).toEqual(["2"]);
  });
});

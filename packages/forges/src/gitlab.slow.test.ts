import { afterEach, describe, expect, test } from "vitest";
import type { Forge } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import {
  GITLAB_TOKEN,
  type GitlabScene,
  createGitlabScene,
  forgeTransports,
} from "@holdfast/test-support/forges/forge-scenes";
import type { Fault } from "@holdfast/test-support/forges/forge-server";
import { forgeContract, settledPull } from "@holdfast/testing/forge-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { withMarker } from "./body-text.ts";
import { commitStatusState, mergeabilityOf } from "./gitlab.ts";

describe("gitlab forge", () => {
  let scene: GitlabScene | undefined;

  afterEach(async () => {
    await scene?.dispose();
    scene = undefined;
  });

  const REQUEST = { title: "One", body: "Text.", head: "topic", base: "main", draft: false, key: "run-1/pr/create" };
  const NOW = Date.UTC(2026, 2, 1, 12);

  interface Act {
    readonly match: RegExp;
    act(forge: Forge, head: string): Promise<unknown>;
    count(scene: GitlabScene): number;
  }

  /** Run in order in one project, each with its response lost after the server acted. */
  const ACTS: readonly Act[] = [
    {
      match: /^POST .*\/issues$/,
      act: (forge) => forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/issue" }),
      count: ({ project }) => project.issues.length,
    },
    {
      match: /^POST .*\/issues\/1\/notes$/,
      act: (forge) => forge.comment(1, { body: "Done.", key: "run-1/done/note" }),
      count: ({ project }) => project.issues[0]?.notes.length ?? 0,
    },
    {
      match: /^PUT .*\/issues\/1$/,
      act: (forge) => forge.setLabels(1, ["in progress"]),
      count: ({ project }) => project.issues[0]?.labels.length ?? 0,
    },
    {
      match: /^POST .*\/merge_requests$/,
      act: (forge) => forge.createPullRequest(REQUEST),
      count: ({ project }) => project.requests.length,
    },
    {
      match: /^POST .*\/merge_requests\/1\/notes$/,
      act: (forge) => forge.comment({ pullRequest: 1 }, { body: "Done.", key: "run-1/done/note" }),
      count: ({ project }) => project.requests[0]?.notes.length ?? 0,
    },
    {
      match: /^PUT .*\/merge_requests\/1$/,
      act: (forge) => forge.setLabels({ pullRequest: 1 }, ["in progress"]),
      count: ({ project }) => project.requests[0]?.labels.length ?? 0,
    },
    {
      match: /^PUT .*\/merge_requests\/1$/,
      act: (forge) => forge.updatePullRequest(1, { title: "Two" }),
      count: ({ project }) => (project.requests[0]?.title === "Two" ? 1 : 0),
    },
    {
      match: /^PUT .*\/merge$/,
      act: (forge, head) => forge.mergePullRequest(1, { head }),
      count: ({ remote }) => Number(remote.bare.git("rev-list", "--count", "--merges", "main").trim()),
    },
  ];

  const answer = (status: number, headers: Readonly<Record<string, string>> = {}): Fault["effect"] => ({
    kind: "answer",
    status,
    headers,
    body: { message: `${status} (for ${GITLAB_TOKEN})` },
  });
  const limited = (seconds: number): object => ({
    code: "FORGE_FAILED",
    data: { until: new Date(NOW + seconds * 1000).toISOString() },
  });
  const TROUBLES: readonly (readonly [string, Fault["effect"], object])[] = [
    [
      "an expired token",
      answer(401),
      { code: "FORGE_DENIED", hint: expect.stringMatching(/glab auth login|GITLAB_TOKEN/) },
    ],
    ["no right", answer(403), { code: "FORGE_DENIED" }],
    ["a limit", answer(429, { "retry-after": "30" }), limited(30)],
    [
      "a limit with a reset",
      answer(429, { "ratelimit-remaining": "0", "ratelimit-reset": `${NOW / 1000 + 90}` }),
      limited(90),
    ],
    ["502", answer(502), { code: "FORGE_FAILED", retry: "later" }],
    ["a dropped connection", { kind: "drop" }, { code: "FORGE_FAILED", retry: "later" }],
    ["a page", { kind: "answer", status: 200, body: "<html>Sign in</html>" }, { code: "FORGE_FAILED" }],
  ];

  for (const way of forgeTransports("glab")) {
    describe.skipIf(way.skip)(`GitLab through ${way.name}`, () => {
      test.each([
        ["the connection is dropped", { kind: "drop" }],
        ["a 502 comes instead", answer(502)],
      ] as const)("anything created is adopted when %s, and created once", async (_how, effect) => {
        scene = await createGitlabScene(way.program);
        const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        for (const { match, act, count } of ACTS) {
          scene.server.faults.set({ match, times: 1, when: "after", effect });
          await act(scene.forge(), head);
          await act(scene.forge(), head);
          expect(count(scene), match.source).toBe(1);
        }
      });

      test.each(TROUBLES)("%s: the cause is reported, without a token", async (_name, effect, expected) => {
        scene = await createGitlabScene(way.program);
        const forge = scene.forge({ clock: createSetClock(new Date(NOW).toISOString()) });
        scene.server.faults.set({ match: /./, times: 9, when: "before", effect });
        const error: unknown = await forge.getIssue(1).catch((reason: unknown) => reason);
        if (!(error instanceof HoldfastError)) throw new Error(`expected a HoldfastError, got ${String(error)}`);
        expect(error).toMatchObject(expected);
        expect([error.message, error.hint, JSON.stringify(error.data), error.stack].join("\n")).not.toContain(
          GITLAB_TOKEN,
        );
      });

      test("a wrong token is denied; in an invisible project nothing is absent", async () => {
        scene = await createGitlabScene(way.program);
        const wrong = scene.forge({ transport: scene.transport({ token: "glpat-wrongwrongwrongwrong" }) });
        await expect(wrong.getIssue(1)).rejects.toMatchObject({ code: "FORGE_DENIED" });
        const hidden = scene.forge({ name: "hidden" });
        await expect(hidden.getIssue(1)).rejects.toMatchObject({ code: "FORGE_DENIED" });
        await expect(hidden.findPullRequest("topic")).rejects.toMatchObject({ code: "FORGE_DENIED" });
      });

      test("lists are read to their last page", async () => {
        scene = await createGitlabScene(way.program);
        const { project } = scene;
        const commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const notes = Array.from({ length: 250 }, (_, at) => ({
          id: at,
          body: at === 249 ? withMarker("", "run-1/done/note") : "x",
          author: { username: "dev" },
          system: false,
          created_at: "2026-01-01T00:00:00Z",
        }));
        for (let iid = 1; iid <= 250; iid += 1) {
          const description = iid === 1 ? withMarker("", "run-1/setup/issue") : null;
          const rest = {
            author: "dev",
            title: "x",
            state: "opened",
            labels: [],
            updatedAt: "2026-01-01T00:00:00Z",
          } as const;
          project.issues.push({ ...rest, iid, description, labels: [], notes: iid === 1 ? notes : [] });
          const status = iid === 250 ? "failed" : "success";
          const about = { commit, name: `job-${iid}`, description: null, isJob: false, allowFailure: false };
          project.statuses.push({ id: iid, status, ...about });
        }
        const forge = scene.forge();
        expect((await forge.findIssue("run-1/setup/issue"))?.number).toBe(1);
        expect(await forge.findComment(1, "run-1/done/note")).not.toBeNull();
        expect(await forge.checks(commit)).toMatchObject({ state: "failed", runs: { length: 250 } });
      });

      test("a draft is marked by its title, which the port does not show; state and title are kept separate", async () => {
        scene = await createGitlabScene(way.program);
        const forge = scene.forge();
        const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const { number } = await forge.createPullRequest({ ...REQUEST, draft: true });
        expect(await settledPull(forge, number)).toMatchObject({ draft: true, title: "One", mergeability: "blocked" });
        await expect(forge.mergePullRequest(number, { head })).rejects.toMatchObject({ data: { why: "draft" } });
        await forge.updatePullRequest(number, { title: "Two" });
        expect(scene.project.requests[0]?.title).toBe("Draft: Two");
      });

      test("from a fork: issue and merge request are in the project, the head comes from the fork", async () => {
        scene = await createGitlabScene(way.program);
        const fork = await createGitlabScene(null);
        try {
          const copy = scene.server.projects.add({ path: "dev/app", bare: fork.remote.bare.root });
          fork.remote.bare.git("fetch", "-q", scene.remote.bare.root, "+refs/heads/main:refs/heads/main");
          const commit = await fork.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
          await scene.push({ branch: "topic", from: "main", files: { "c.txt": "c\n" } });
          await scene.forge().createPullRequest({ ...REQUEST, key: "run-9/pr/create" });
          const forge = scene.forge({ head: { owner: "dev", name: "app" } });
          expect(await forge.findPullRequest("topic")).toBeNull();
          const made = await forge.createPullRequest(REQUEST);
          expect([made.number, made.headCommit, copy.requests.length]).toEqual([2, commit, 0]);
          expect((await forge.mergePullRequest(made.number, { head: commit })).state).toBe("merged");
        } finally {
          await fork.dispose();
        }
      });
    });
  }

  test.each([
    ["mergeable", false, "mergeable"],
    ["conflict", true, "conflicting"],
    ["broken_status", false, "conflicting"],
    ["not_approved", true, "conflicting"],
    ["need_rebase", false, "behind"],
    ["checking", false, "unknown"],
    ["unchecked", true, "unknown"],
    ["not_approved", false, "blocked"],
    ["ci_must_pass", false, "blocked"],
    ["a future value", false, "blocked"],
  ] as const)("%s with conflicts %j is %s", (detailed_merge_status, has_conflicts, expected) => {
    expect(mergeabilityOf({ title: "One", detailed_merge_status, has_conflicts })).toBe(expected);
  });

  test("before 15.6 the plain status is used", () => {
    const words = ["can_be_merged", "cannot_be_merged", "unchecked", "cannot_be_merged_recheck"];
    expect(words.map((merge_status) => mergeabilityOf({ title: "One", merge_status }))).toEqual([
      "mergeable",
      "conflicting",
      "unknown",
      "unknown",
    ]);
  });

  test("a job that may fail does not count, nor does one that waits for a user", () => {
    expect(commitStatusState({ status: "failed" })).toBe("failed");
    expect(commitStatusState({ status: "failed", allow_failure: true })).toBe("skipped");
    expect(
      ["manual", "scheduled", "canceled", "a future value"].map((status) => commitStatusState({ status })),
    ).toEqual(["skipped", "pending", "failed", "failed"]);
  });
});

describe("contract", () => {
  for (const way of forgeTransports("glab")) {
    describe.skipIf(way.skip)(`GitLab through ${way.name} keeps the contract`, () => {
      for (const { name, run } of forgeContract) {
        test(name, async () => {
          const scene = await createGitlabScene(way.program);
          try {
            await run(scene);
          } finally {
            await scene.dispose();
          }
        });
      }
    });
  }
});

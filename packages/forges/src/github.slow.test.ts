import { afterEach, describe, expect, test } from "vitest";
import { type GithubScene, createGithubScene, forgeTransports } from "@holdfast/test-support/forges/forge-scenes";
import type { Pull } from "@holdfast/test-support/forges/github-state";
import { forgeContract, settledPull } from "@holdfast/testing/forge-contract";
import { withMarker } from "./body-text.ts";

describe("github forge", () => {
  let scene: GithubScene | undefined;

  afterEach(async () => {
    await scene?.dispose();
    scene = undefined;
  });

  const REQUEST = { title: "One", body: "Text.", head: "topic", base: "main", draft: false, key: "run-1/pr/create" };
  const TIMES = { createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" };

  for (const way of forgeTransports("gh")) {
    describe.skipIf(way.skip)(`GitHub through ${way.name}`, () => {
      test("lists are read to their last page", async () => {
        scene = await createGithubScene(way.program);
        const { repository } = scene;
        const commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        for (let number = 1; number <= 250; number += 1) {
          const body = number === 1 ? withMarker("", "run-1/setup/issue") : null;
          repository.issues.push({ number, author: "dev", title: "x", body, state: "open", labels: [], ...TIMES });
          const text = number === 250 ? withMarker("", "run-1/done/note") : "x";
          repository.comments.push({ id: number, on: 1, author: "dev", body: text });
          repository.checkRuns.push({
            id: number,
            commit,
            name: `run-${number}`,
            status: "completed",
            conclusion: "success",
            summary: "",
            app: "ci",
          });
          const state = number === 250 ? "failure" : "success";
          repository.statuses.push({ commit, context: `status-${number}`, state, description: "" });
        }
        const forge = scene.forge();
        expect((await forge.findIssue("run-1/setup/issue"))?.number).toBe(1);
        expect(await forge.findComment(1, "run-1/done/note")).not.toBeNull();
        const checks = await forge.checks(commit);
        expect([checks.state, checks.runs.length]).toEqual(["failed", 500]);
      });

      test("an open pull request is found behind more than a hundred that were closed", async () => {
        scene = await createGithubScene(way.program);
        const { repository } = scene;
        const headCommit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        for (let number = 1; number <= 120; number += 1) {
          const state = number === 1 ? "open" : "closed";
          repository.pulls.push(pullOf(scene, { number, state, headCommit }));
        }
        expect((await scene.forge().findPullRequest("topic"))?.number).toBe(1);
      });

      test("the reasons that block a merge are distinguished", async () => {
        scene = await createGithubScene(way.program);
        const { repository } = scene;
        const forge = scene.forge();
        await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const made = await forge.createPullRequest(REQUEST);
        expect(made.mergeability).toBe("unknown");
        await scene.push({ branch: "main", files: { "m.txt": "m\n" } });
        const words = async (): Promise<string> => (await settledPull(forge, made.number)).mergeability;
        expect(await words()).toBe("mergeable");
        repository.rules.strict = true;
        expect(await words()).toBe("behind");
        repository.rules.approvals = true;
        expect(await words()).toBe("blocked");
        const head = (await forge.getPullRequest(made.number))?.headCommit ?? "";
        const refusal = { code: "FORGE_REFUSED", data: { why: "blocked" } };
        await expect(forge.mergePullRequest(made.number, { head })).rejects.toMatchObject(refusal);
        await scene.push({ branch: "main", files: { "b.txt": "other\n" } });
        expect(await words()).toBe("conflicting");
      });

      test("a draft is created as one, is blocked and not merged; a repository without drafts refuses it", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge();
        const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const { number } = await forge.createPullRequest({ ...REQUEST, draft: true });
        expect(await settledPull(forge, number)).toMatchObject({ draft: true, mergeability: "blocked" });
        await expect(forge.mergePullRequest(number, { head })).rejects.toMatchObject({ data: { why: "draft" } });
        scene.repository.rules.drafts = false;
        await scene.push({ branch: "other", from: "main", files: { "c.txt": "c\n" } });
        const other = forge.createPullRequest({ ...REQUEST, head: "other", key: "run-2/pr/create", draft: true });
        await expect(other).rejects.toMatchObject({ code: "FORGE_REFUSED", data: { why: "drafts_off" } });
      });

      test("without merge commits in the repository, it is squashed", async () => {
        scene = await createGithubScene(way.program);
        scene.repository.rules.methods = ["squash"];
        const forge = scene.forge();
        const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const { number } = await forge.createPullRequest(REQUEST);
        expect((await forge.mergePullRequest(number, { head })).state).toBe("merged");
      });

      test("a body that is too long is cut, and still found by its key", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge();
        const body = "x".repeat(200_000);
        const made = await forge.createIssue({ title: "One", body, labels: [], key: "run-1/setup/issue" });
        expect(made.body.length).toBeLessThanOrEqual(65_536);
        expect((await forge.findIssue("run-1/setup/issue"))?.number).toBe(made.number);
        const note = await forge.comment(made.number, { body, key: "run-1/done/note" });
        expect(await forge.findComment(made.number, "run-1/done/note")).toEqual(note);
      });

      test("a pull request is not an issue, and an issue that moved to another repository is not ours", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge();
        await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const { number } = await forge.createPullRequest(REQUEST);
        expect(await forge.getIssue(number)).toBeNull();
        const moved = await forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/issue" });
        const { server } = scene;
        server.faults.set({
          match: /^GET .*\/issues\/\d+$/,
          times: 1,
          when: "after",
          effect: {
            kind: "answer",
            status: 200,
            body: {
              number: 9,
              title: "One",
              state: "open",
              labels: [],
              updated_at: "2026-01-01T00:00:00Z",
              repository_url: "https://api.github.com/repos/octo/elsewhere",
            },
          },
        });
        expect(await forge.getIssue(moved.number)).toBeNull();
        expect((await forge.getIssue(moved.number))?.number).toBe(moved.number);
      });

      test("unrelated results of a filter are left out", async () => {
        scene = await createGithubScene(way.program);
        const pull = { number: 9, html_url: "x", title: "x", state: "open", base: { ref: "main" }, labels: [] };
        const heads = ["someone:topic", "octo:topic-2"].map((label) => ({ label, ref: label.split(":")[1], sha: "0" }));
        const body = heads.map((head) => ({ ...pull, head }));
        scene.server.faults.set({
          match: /^GET .*\/pulls\?/,
          times: 1,
          when: "after",
          effect: { kind: "answer", status: 200, body },
        });
        expect(await scene.forge().findPullRequest("topic")).toBeNull();
      });

      test("a failed job of Actions brings the end of its log", async () => {
        scene = await createGithubScene(way.program);
        const commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const { repository } = scene;
        const run = { commit, status: "completed", conclusion: "failure", summary: "", app: "github-actions" };
        repository.checkRuns.push({ ...run, id: 7, name: "test" }, { ...run, id: 8, name: "gone" });
        repository.logs.set(
          7,
          "2026-01-01T00:00:00.0000000Z ##[group]Run\n2026-01-01T00:00:00.1Z prints no greeting: failed\n",
        );
        const { runs } = await scene.forge().checks(commit);
        expect(runs.map(({ summary }) => summary)).toEqual(["Run\nprints no greeting: failed", ""]);
      });

      test("a token that cannot read check runs is denied: a part of the checks does not count as all", async () => {
        scene = await createGithubScene(way.program);
        const commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const body = { message: "Resource not accessible by personal access token" };
        const effect = { kind: "answer", status: 403, body } as const;
        scene.server.faults.set({ match: /check-runs/, times: 1, when: "before", effect });
        await expect(scene.forge().checks(commit)).rejects.toMatchObject({
          code: "FORGE_DENIED",
          hint: expect.stringContaining("Fine-grained tokens cannot read check runs"),
        });
      });

      test("reviews come with their line comments, to the last page; drafts are left out, bots and deleted accounts are marked", async () => {
        scene = await createGithubScene(way.program);
        const commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        const forge = scene.forge();
        const { number } = await forge.createPullRequest(REQUEST);
        const { reviews } = scene.repository;
        const at = "2026-01-01T00:00:00Z";
        const rest = { on: number, author: "ada", isBot: false, body: "", commit, at, remarks: [] } as const;
        for (let id = 1; id <= 101; id += 1) reviews.push({ ...rest, id, state: "COMMENTED" });
        const remarks = [{ path: "b.txt", line: 1, body: "Louder." }];
        reviews.push({ ...rest, id: 102, state: "CHANGES_REQUESTED", body: "No.", remarks });
        reviews.push({ ...rest, id: 103, state: "PENDING" }, { ...rest, id: 104, state: "DISMISSED" });
        reviews.push({ ...rest, id: 105, state: "APPROVED", author: "lint[bot]", isBot: true });
        const found = await forge.reviews(number);
        expect(found).toHaveLength(104);
        expect(found.slice(101).map(({ id, author, state, byPerson }) => [id, author, state, byPerson])).toEqual([
          ["102", "ada", "changes_requested", true],
          ["104", "ada", "dismissed", true],
          ["105", "lint[bot]", "approved", false],
        ]);
        expect(found[101]).toMatchObject({ body: "No.\n\nb.txt:1: Louder.", commit, at });
      });

      test("an Enterprise server has its API under a path of its host", async () => {
        scene = await createGithubScene(way.program);
        const host = "ghe.example.com";
        const forge = scene.forge({ host, transport: scene.transport({ host }) });
        expect(await forge.defaultBranch()).toBe("main");
        expect(scene.server.asked).toEqual(["GET /api/v3/repos/octo/app"]);
        expect(forge.location).toBe("https://ghe.example.com/octo/app");
      });

      test("from a fork: issue and pull request are at upstream, the head has the fork's owner", async () => {
        scene = await createGithubScene(way.program);
        const { repository, server } = scene;
        const fork = await createGithubScene(null);
        try {
          const head = { owner: "dev", name: "app" };
          const copy = server.world.add({ ...head, bare: fork.remote.bare.root, parent: repository });
          fork.remote.bare.git("fetch", "-q", scene.remote.bare.root, "+refs/heads/main:refs/heads/main");
          const commit = await fork.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
          // Another user's branch of the same name, in the repository itself.
          const otherCommit = await scene.push({ branch: "topic", from: "main", files: { "c.txt": "c\n" } });
          const forge = scene.forge({ head });
          await scene.forge().createPullRequest({ ...REQUEST, key: "run-9/pr/create" });
          expect(await forge.findPullRequest("topic")).toBeNull();
          const made = await forge.createPullRequest(REQUEST);
          expect([made.headCommit, made.head]).toEqual([commit, "topic"]);
          expect(repository.pulls.map((pull) => pull.head.repository.owner)).toEqual(["octo", "dev"]);
          expect(copy.pulls).toEqual([]);
          expect((await forge.createPullRequest(REQUEST)).number).toBe(made.number);
          expect((await scene.forge().findPullRequest("topic"))?.headCommit).toBe(otherCommit);
          expect((await forge.mergePullRequest(made.number, { head: commit })).state).toBe("merged");
          expect(await scene.isAncestor(commit, "main")).toBe(true);
        } finally {
          await fork.dispose();
        }
      });
    });
  }

  function pullOf({ repository }: GithubScene, given: Pick<Pull, "number" | "state" | "headCommit">): Pull {
    return {
      ...given,
      author: "dev",
      title: "x",
      body: null,
      labels: [],
      ...TIMES,
      draft: false,
      head: { repository, branch: "topic" },
      base: "main",
      mergeCommit: null,
      reckoned: null,
    };
  }
});

describe("contract", () => {
  for (const way of forgeTransports("gh")) {
    describe.skipIf(way.skip)(`GitHub through ${way.name} keeps the contract`, () => {
      for (const { name, run } of forgeContract) {
        test(name, async () => {
          const scene = await createGithubScene(way.program);
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

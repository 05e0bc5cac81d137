import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { Branch } from "@holdfast/core/branch";
import { createGitBranches } from "@holdfast/git/branches";
import { type GithubScene, createGithubScene } from "@holdfast/test-support/forges/forge-scenes";
import { type TestRepository, testRepositoryAt } from "@holdfast/test-support/git/repository";
import { settledPull } from "@holdfast/testing/forge-contract";

let scene: GithubScene | undefined;

afterEach(async () => {
  await scene?.dispose();
  scene = undefined;
});

const AT = "2026-03-01T12:00:00.000Z";
const REQUEST = {
  title: "One",
  body: "",
  head: "holdfast/issue-42",
  base: "main",
  draft: false,
  key: "run-1/pr/create",
};

test("base moved, conflict, rebase, pushed with lease, mergeable: over HTTP, with real git on both sides", async () => {
  scene = await createGithubScene(null);
  const { forge, tree, branch } = await cloned(scene);
  tree.write("a.txt", "ours\n");
  await branch.commit({ message: "Ours", at: AT, exclude: [] });
  const first = await branch.push({ expected: null });
  expect(first.kind).toBe("pushed");
  const { number } = await forge.createPullRequest(REQUEST);
  expect((await settledPull(forge, number)).mergeability).toBe("mergeable");

  const base = await scene.push({ branch: "main", files: { "a.txt": "theirs\n" } });
  expect((await settledPull(forge, number)).mergeability).toBe("conflicting");

  const pushed = await branch.head();
  await branch.fetch();
  expect(await branch.remoteBranch("main")).toBe(base);
  expect((await branch.rebase({ onto: base, at: AT })).kind).toBe("conflict");
  const { files } = await branch.placeConflict({ onto: base });
  tree.write("a.txt", "both\n");
  await branch.commitResolved({ message: "Ours", at: AT, exclude: [], onto: base, files });
  expect(await branch.push({ expected: pushed })).toMatchObject({ kind: "pushed", forced: true });

  const settled = await settledPull(forge, number);
  expect(settled).toMatchObject({ mergeability: "mergeable", headCommit: await branch.head() });
  const merged = await forge.mergePullRequest(number, { head: settled.headCommit });
  expect(merged.state).toBe("merged");
  expect(scene.remote.bare.git("show", "main:a.txt")).toBe("both\n");
});

test("a push that arrived though its answer was lost is found at the remote, and a second one changes nothing", async () => {
  scene = await createGithubScene(null);
  const { tree, branch } = await cloned(scene);
  tree.write("b.txt", "ours\n");
  await branch.commit({ message: "Ours", at: AT, exclude: [] });
  scene.server.faults.set({ match: /^POST .*git-receive-pack/, times: 1, when: "after", effect: { kind: "drop" } });
  expect(await branch.push({ expected: null })).toEqual({ kind: "up_to_date", commit: await branch.head() });
  expect(await branch.lookUpRemote(branch.name)).toEqual({ kind: "known", commit: await branch.head() });
  expect((await branch.push({ expected: null })).kind).toBe("up_to_date");
});

test("with a fork, the base comes from upstream, the branch goes to the fork, and the pull request joins them", async () => {
  scene = await createGithubScene(null);
  const { server, repository } = scene;
  const bare = join(scene.remote.folder, "fork.git");
  scene.remote.bare.git("clone", "-q", "--bare", scene.remote.bare.root, bare);
  server.world.add({ owner: "dev", name: "app", bare, parent: repository });
  const { tree, branch } = await cloned(scene);
  tree.git("remote", "rename", "origin", "upstream");
  tree.git("remote", "add", "origin", `${server.url}/dev/app.git`);
  const base = await scene.push({ branch: "main", files: { "m.txt": "m\n" } });
  expect([(await branch.remote())?.name, (await branch.pushRemote())?.name]).toEqual(["upstream", "origin"]);
  expect(await branch.fetch()).toEqual({ kind: "fetched" });
  expect(await branch.remoteBranch("main")).toBe(base);
  expect((await branch.rebase({ onto: base, at: AT })).kind).toBe("rebased");
  tree.write("b.txt", "ours\n");
  await branch.commit({ message: "Ours", at: AT, exclude: [] });
  expect((await branch.push({ expected: null })).kind).toBe("pushed");
  expect(await scene.tip(REQUEST.head)).toBeNull();
  const head = await branch.head();
  expect(await branch.lookUpRemote(branch.name)).toEqual({ kind: "known", commit: head });
  await branch.fetch();
  expect(await branch.remoteBranch(branch.name)).toBe(head);
  const forge = scene.forge({ head: { owner: "dev", name: "app" } });
  const { number } = await forge.createPullRequest(REQUEST);
  expect(await settledPull(forge, number)).toMatchObject({ headCommit: head, mergeability: "mergeable" });
});

async function cloned(from: GithubScene): Promise<{
  readonly forge: ReturnType<GithubScene["forge"]>;
  readonly tree: TestRepository;
  readonly branch: Branch;
}> {
  const root = join(from.remote.folder, "clone");
  from.remote.bare.git("clone", "-q", from.remote.bare.root, root);
  const tree = testRepositoryAt(root);
  tree.git("config", "user.name", "Ada");
  tree.git("config", "user.email", "ada@example.invalid");
  tree.git("remote", "set-url", "origin", `${from.server.url}/octo/app.git`);
  tree.git("switch", "-qc", REQUEST.head);
  return { forge: from.forge(), tree, branch: await createGitBranches().of(root) };
}

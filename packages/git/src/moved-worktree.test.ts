import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type TestRepository, createTestRepository, testRepositoryAt } from "@holdfast/test-support/git/repository";
import { createGitBranches } from "./branches.ts";
import { openGitWorkspaces } from "./workspaces.ts";

let repo: TestRepository;
let base: string;
let root: string;
beforeEach(async () => {
  repo = createTestRepository();
  repo.write("a.txt", "one\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  base = dirname(repo.root);
  ({ root } = await (await openGitWorkspaces(repo.root)).create({ run: "r" }));
  writeFileSync(join(root, "edit.txt"), "mine\n");
});
afterEach(() => repo.dispose());

const at = (...names: readonly string[]): string => join(base, ...names);

test.each([
  { title: "the repository alone", to: "new/name", worktree: ["repo-worktrees", "r"], moves: [] },
  {
    title: "both, under their names",
    to: "new/repo",
    worktree: ["new", "repo-worktrees", "r"],
    moves: [["repo-worktrees", "new/repo-worktrees"]],
  },
  {
    title: "both, and the repository renamed",
    to: "new/name",
    worktree: ["new", "repo-worktrees", "r"],
    moves: [["repo-worktrees", "new/repo-worktrees"]],
  },
  {
    title: "both renamed",
    to: "name",
    worktree: ["name-worktrees", "r"],
    moves: [["repo-worktrees", "name-worktrees"]],
  },
])("after a move of $title the worktree is found where it is, with its edits", async ({ to, worktree, moves }) => {
  mkdirSync(at("new"), { recursive: true });
  renameSync(repo.root, at(to));
  for (const [from = "", place = ""] of moves) renameSync(at(from), at(place));
  const now = at(...worktree);
  // A plan that changes nothing runs git in the worktree too. In a container, links that are stale here are right for the host.
  const links = [join(now, ".git"), at(to, ".git", "worktrees", "r", "gitdir")];
  const before = links.map((path) => readFileSync(path, "utf8"));
  const reader = await openGitWorkspaces(at(to), null, { readOnly: true });
  expect((await reader.find("r"))?.root).toBe(now);
  expect((await reader.open(now)).root).toBe(now);
  expect(await reader.inspectWorktree("r")).toMatchObject({ path: now, exists: true, isGone: false });
  expect((await (await reader.find("r"))?.look({ at: "2026-01-02T03:04:05.000Z" }))?.head).toMatch(/^[0-9a-f]{40}$/);
  expect(await (await createGitBranches().of(now)).changedSince({ from: "HEAD", exclude: [] })).toMatchObject([
    { path: "edit.txt" },
  ]);
  expect(links.map((path) => readFileSync(path, "utf8"))).toEqual(before);

  const workspaces = await openGitWorkspaces(at(to));
  expect(testRepositoryAt(now).git("status", "--porcelain")).toBe("?? edit.txt\n");
  expect(testRepositoryAt(at(to)).git("worktree", "list", "--porcelain")).toContain(`worktree ${now}\n`);
  expect((await workspaces.create({ run: "r" })).root).toBe(now);
  await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ data: { untracked: ["edit.txt"] } });
  await workspaces.remove({ run: "r", force: true });
  expect(existsSync(now)).toBe(false);
});

test("a repair that was killed between its two links is completed", async () => {
  renameSync(repo.root, at("name"));
  renameSync(at("repo-worktrees"), at("name-worktrees"));
  writeFileSync(at("name-worktrees", "r", ".git"), `gitdir: ${at("name", ".git", "worktrees", "r")}\n`);
  await openGitWorkspaces(at("name"));
  expect(testRepositoryAt(at("name")).git("worktree", "list")).toContain(at("name-worktrees", "r"));
});

test("a side worktree is found with the worktree of its run", async () => {
  const workspaces = await openGitWorkspaces(repo.root);
  const commit = repo.git("rev-parse", "HEAD").trim();
  await workspaces.sideWorktrees.place({ run: "r", name: "side", commit, base: commit, beside: root });
  renameSync(repo.root, at("name"));
  renameSync(at("repo-worktrees"), at("name-worktrees"));
  const moved = await openGitWorkspaces(at("name"));
  const records = (await moved.list()).filter(({ run }) => run === "r");
  expect(records.map(({ exists, path }) => exists && path.startsWith(at("name-worktrees")))).toEqual([true, true]);
});

test("a copy of the repository takes no worktree of the original, and of two copies of a worktree neither", async () => {
  cpSync(repo.root, at("copy"), { recursive: true });
  cpSync(at("repo-worktrees"), at("copy-worktrees"), { recursive: true });
  const link = readFileSync(join(root, ".git"), "utf8");
  expect(await (await openGitWorkspaces(at("copy"))).find("r")).toBeUndefined();
  for (const folder of ["repo-worktrees", "copy-worktrees"])
    expect(readFileSync(at(folder, "r", ".git"), "utf8")).toBe(link);

  rmSync(at("copy"), { recursive: true });
  mkdirSync(at("new"));
  renameSync(repo.root, at("new", "copy"));
  renameSync(at("copy-worktrees"), at("new", "copy-worktrees"));
  renameSync(at("repo-worktrees"), at("new", "repo-worktrees"));
  expect(await (await openGitWorkspaces(at("new", "copy"))).find("r")).toBeUndefined();
});

test("a folder that another repository, or no repository, uses is not taken for a worktree of a run", async () => {
  renameSync(repo.root, at("name"));
  for (const link of ["gitdir: /elsewhere/.git/worktrees/other\n", "gitdir: /elsewhere/modules/r\n", ""]) {
    writeFileSync(join(root, ".git"), link);
    expect(await (await openGitWorkspaces(at("name"))).find("r")).toBeUndefined();
    expect(readFileSync(join(root, ".git"), "utf8")).toBe(link);
  }
});

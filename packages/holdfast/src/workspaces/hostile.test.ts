import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { armRepository, HOSTILE_ATTRIBUTES, springTraps } from "../testing/workspace/workspace-hostile.ts";
import {
  createTestRepository,
  testRepositoryAt,
  type TestRepository,
} from "../testing/workspace/workspace-repository.ts";
import { openWorkspaceSession } from "../testing/workspace/workspace-session.ts";
import { openGitWorkspaces } from "./git-workspaces.ts";

let repo: TestRepository;
beforeEach(() => {
  repo = createTestRepository();
  for (const name of ["a.txt", "b.two", "c.three", "d.eq", "dir/e.txt"]) repo.write(name, `${name}\r\n`);
  repo.write(".gitattributes", HOSTILE_ATTRIBUTES);
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
});
afterEach(() => repo.dispose());

/** Repositories inside, tracked and not, with traps of their own. */
function armInner(): void {
  const inner = testRepositoryAt(repo.path("inner"));
  repo.write("inner/file", "x");
  inner.git("init", "-q");
  repo.git("clone", "-q", repo.root, repo.path("sub"));
  repo.git("add", "-f", "sub");
  repo.git("commit", "-qm", "a submodule");
  for (const nested of [inner, testRepositoryAt(repo.path("sub"))]) {
    nested.git("config", "core.fsmonitor", join(repo.root, "..", "markers", "trap-fsmonitor.sh"));
    nested.git("config", "filter.evil.clean", join(repo.root, "..", "markers", "trap-clean.sh"));
  }
  repo.write("sub/a.txt", "edited inside\n");
}

test("nothing that a repository names is ever run, by any operation", async () => {
  armInner();
  const markers = armRepository(repo);
  const { snapshot, restore, workspaces, workspace, guard } = await openWorkspaceSession({
    repository: repo,
    open: openGitWorkspaces,
  });
  const first = await snapshot();
  for (const name of ["a.txt", "b.two", "c.three", "d.eq"]) repo.write(name, "edited\n");
  repo.write("new.two", "new\r\n");
  repo.remove("dir");
  const second = await snapshot();
  await restore(first);
  await restore(second, ["b.two", "dir"]);
  await workspace.currentFiles({ includeIgnored: true });
  for (const format of ["patch", "stat", "names"] as const) {
    const diff = await guard(() => workspaces.diff({ from: first.commit, to: second.commit, format, color: true }));
    expect(diff.files.length).toBe(6);
  }
  await guard(() => workspaces.has(first));
  await guard(() => workspaces.unpublished([first.commit]));
  await guard(() => workspaces.pin({ run: "other", sequence: 1, commit: first.commit }));
  await workspaces.create({ run: "made", base: "main" });
  await workspaces.list();
  await (await workspaces.find("made"))?.currentFiles();
  await expect(workspaces.remove({ run: "made", force: true })).resolves.toBeUndefined();
  await guard(() => workspaces.unpin([first.ref]));
  expect(markers()).toEqual([]);

  springTraps(repo);
  expect(markers()).not.toEqual([]);
});

test("our own git directory is made anew when somebody planted another", async () => {
  const markers = armRepository(repo);
  const planted = repo.path(".git/holdfast-workspace/git");
  for (const folder of ["info", "refs", "objects"]) mkdirSync(join(planted, folder), { recursive: true });
  const trap = join(repo.root, "..", "markers", "trap-clean.sh");
  writeFileSync(join(planted, "HEAD"), "ref: refs/heads/none\n");
  writeFileSync(join(planted, "config"), `[core]\n\trepositoryformatversion = 0\n[filter "evil"]\n\tclean = ${trap}\n`);
  writeFileSync(join(planted, "info", "attributes"), "* filter=evil\n");
  const { snapshot } = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
  await snapshot();
  expect(markers()).toEqual([]);
});

test("a link in the place of our folder is refused", async () => {
  const elsewhere = join(repo.root, "..", "elsewhere");
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, repo.path(".git/holdfast-workspace"));
  await expect(openGitWorkspaces(repo.root)).rejects.toMatchObject({ code: "IO_FAILED" });
});

test("core.worktree cannot point us at another folder", async () => {
  const victim = join(repo.root, "..", "victim");
  mkdirSync(victim);
  repo.git("config", "core.worktree", victim);
  const workspaces = await openGitWorkspaces(repo.root);
  await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
  await expect(workspaces.open(victim)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
  repo.git("config", "core.worktree", join(repo.root, ".."));
  await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
});

test("a bare repository that lies in a cloned tree does not speak for it", async () => {
  repo.git("init", "-q", "--bare", "planted");
  mkdirSync(repo.path("planted/sub"));
  await expect(openGitWorkspaces(repo.path("planted/sub"))).rejects.toMatchObject({ code: "NOT_A_REPOSITORY" });
});

test("a file names the worktree that it lies in", async () => {
  const workspaces = await openGitWorkspaces(repo.path("dir/e.txt"));
  expect((await workspaces.open(repo.path("a.txt"))).root).toBe(repo.root);
});

test("GIT_* variables of the caller do not reach git", async () => {
  const before = { ...process.env };
  const names = {
    GIT_DIR: "/nonexistent",
    GIT_INDEX_FILE: "/nonexistent",
    GIT_WORK_TREE: "/",
    GIT_OBJECT_DIRECTORY: "/nonexistent",
  };
  Object.assign(process.env, names);
  try {
    const workspaces = await openGitWorkspaces(repo.root);
    const workspace = await workspaces.open(repo.root);
    expect(workspace.root).toBe(repo.root);
    expect((await workspace.currentFiles()).tree).toMatch(/^[0-9a-f]{40}$/);
  } finally {
    for (const name of Object.keys(names)) delete process.env[name];
    Object.assign(process.env, before);
  }
});

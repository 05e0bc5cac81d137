/** The ways in which other tools destroyed people's work, by the threads that tell of them. Each must be impossible here. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readWorktree, testRepositoryAt, userState } from "../testing/workspace/workspace-repository.ts";
import { startCommitted, startSession, startWorkspace } from "../testing/workspace/workspace-start.ts";
import { openGitWorkspaces } from "./git-workspaces.ts";

test("copilot-cli#1675: a restore deletes output that the agent never touched", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "ignored-output/\n", a: "1" });
  repo.write("ignored-output/evaluation", "a gigabyte");
  repo.write("plain-output/evaluation", "another");
  const plane = await snapshot();
  repo.write("a", "2");
  await restore(plane);
  expect([repo.read("ignored-output/evaluation"), repo.read("plain-output/evaluation")]).toEqual([
    "a gigabyte",
    "another",
  ]);
});

test("cline#14367: a restore reverts .gitignore first, then deletes what was ignored a moment ago", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "\n", a: "1" });
  const plane = await snapshot();
  repo.write(".gitignore", "data/\n");
  repo.write("data/precious", "1");
  repo.write("a", "2");
  await restore(plane);
  expect(repo.read("data/precious")).toBe("1");
});

test("Roo-Code#6209: the first checkpoint of another tool's repository deletes the codebase", async () => {
  const { repo, snapshot, restore } = await startWorkspace({});
  const before = await snapshot();
  repo.write("src/app.ts", "made by another tool");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "by another tool");
  const { undo } = await restore(before);
  expect(existsSync(repo.path("src/app.ts"))).toBe(false);
  await restore(undo);
  expect(repo.read("src/app.ts")).toBe("made by another tool");
  expect(repo.git("status", "--porcelain")).toBe("");
});

test("opencode#3148: undoing a one-line edit deletes the whole file", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "line\n" });
  repo.write("untracked", "line\n");
  const plane = await snapshot();
  for (const name of ["a", "untracked"]) repo.write(name, "line\nmore\n");
  await restore(plane);
  expect([repo.read("a"), repo.read("untracked")]).toEqual(["line\n", "line\n"]);
});

test("opencode#3176: undoing in one folder of a monorepo resets its neighbour", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ "mine/a": "1", "theirs/b": "1" });
  const plane = await snapshot();
  repo.write("mine/a", "2");
  repo.write("theirs/b", "edited by a person");
  await restore(plane, ["mine"]);
  expect([repo.read("mine/a"), repo.read("theirs/b")]).toEqual(["1", "edited by a person"]);
});

test("opencode#28033: ignored files get tracked and are then reverted by an undo", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "*.cache\n", a: "1" });
  repo.write("x.cache", "then");
  const plane = await snapshot();
  repo.write("x.cache", "now");
  repo.write("a", "2");
  await restore(plane);
  expect(repo.read("x.cache")).toBe("now");
});

test("claude-code#87575, #34368: edits and deletions made by a shell are not in the checkpoint", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "1", b: "1" });
  const recorded = readWorktree(repo.root);
  const plane = await snapshot();
  execFileSync("sh", ["-c", "sed -i s/1/2/ a && rm b && mkdir -p c && echo 3 > c/d"], { cwd: repo.root });
  expect((await restore(plane)).written).toBe(2);
  expect(readWorktree(repo.root)).toEqual(recorded);
});

test("qwen-code#4064: snapshots cannot be restored after a restart", async () => {
  const { repo, snapshot } = await startWorkspace({ a: "1" });
  const text = JSON.stringify(await snapshot());
  repo.write("a", "2");
  repo.remove(".git/holdfast-workspace");
  const { restore } = await startSession(repo);
  await restore(JSON.parse(text));
  expect(repo.read("a")).toBe("1");
});

test("cline#13550, codex#8214: a restore moves the branch or loses what was staged", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
  const plane = await snapshot();
  repo.write("a", "2");
  repo.git("commit", "-qam", "second");
  repo.write("a", "staged");
  repo.git("add", "a");
  const before = userState(repo.path(".git"));
  await restore(plane);
  expect(userState(repo.path(".git"))).toEqual(before);
  expect(repo.git("show", ":a")).toBe("staged");
});

test("cline#5598, #4388: nested repositories are renamed and left broken", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
  repo.git("init", "-q", "inner");
  const inner = testRepositoryAt(repo.path("inner"));
  inner.git("commit", "-q", "--allow-empty", "-m", "one");
  const before = userState(repo.path("inner/.git"));
  const plane = await snapshot();
  repo.write("a", "2");
  await restore(plane);
  expect(userState(repo.path("inner/.git"))).toEqual(before);
  expect(inner.git("status", "--porcelain")).toBe("");
});

test("opencode#18734: snapshots are taken by gc", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
  repo.write("only", "copy");
  const plane = await snapshot();
  repo.remove("only");
  repo.git("gc", "-q", "--prune=now");
  await restore(plane);
  expect(repo.read("only")).toBe("copy");
});

test("claude-code#74719, #35862: clean-up removes dirty and unpushed worktrees, also when HEAD was just reset to its base", async () => {
  const repo = startCommitted();
  const workspaces = await openGitWorkspaces(repo.root);
  const made = await workspaces.create({ run: "r" });
  const tree = testRepositoryAt(made.root);
  tree.write("work", "mine");
  tree.git("add", "work");
  tree.git("commit", "-qm", "unpushed");
  await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
  tree.git("reset", "-q", "--soft", "HEAD~1");
  await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
  expect(tree.read("work")).toBe("mine");
});

test("gastown#865: a name that is used again orphans the work under it", async () => {
  const repo = startCommitted();
  const workspaces = await openGitWorkspaces(repo.root);
  const first = await workspaces.create({ run: "r" });
  testRepositoryAt(first.root).write("work", "mine");
  const second = await workspaces.create({ run: "r", path: join(repo.root, "..", "elsewhere"), base: "HEAD" });
  expect(second.root).toBe(first.root);
  expect(readFileSync(join(second.root, "work"), "utf8")).toBe("mine");
});

test("pi-code#251: the home directory is snapshotted as a whole", async () => {
  const repo = startCommitted();
  const home = process.env["HOME"];
  const link = join(repo.root, "..", "home");
  symlinkSync(repo.root, link);
  process.env["HOME"] = link;
  try {
    const workspaces = await openGitWorkspaces(repo.root);
    await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  } finally {
    process.env["HOME"] = home;
  }
});

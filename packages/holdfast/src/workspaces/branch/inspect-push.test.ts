import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { createGitBranches } from "./git-branches.ts";

// Put together here, so that no scanner takes this file for a leak.
const TOKEN = ["ghp", "_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"].join("");
const OLD = ["glpat-", "AbCdEfGhIjKlMnOpQrSt"].join("");

function repository() {
  const folder = scratchDirectory(onTestFinished);
  const git = (...args: readonly string[]): string =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.org", ...args], {
      cwd: folder,
      encoding: "utf8",
    });
  const write = (path: string, text: string | Uint8Array): void => writeFileSync(join(folder, path), text);
  const commit = (message: string): void => {
    git("add", "-A");
    git("commit", "-qm", message);
  };
  git("init", "-q", "-b", "main");
  write("old.txt", `here since long: ${OLD}\n`);
  commit("base");
  const remote = scratchDirectory(onTestFinished);
  git("init", "-q", "--bare", remote);
  git("remote", "add", "origin", remote);
  git("push", "-q", "origin", "main");
  git("switch", "-qc", "work");
  const look = async () => await (await createGitBranches().of(folder)).inspectPush({ issue: 42 });
  return { folder, git, write, commit, look };
}

test("clean commits, and what the remote has already, are no reason to stop", async () => {
  const { write, commit, look } = repository();
  write("old.txt", `here since long: ${OLD}\nand a line more\n`);
  write("code.ts", "const token = process.env.GITHUB_TOKEN;\nconst sum = 'sha512-abc';\n");
  commit("work");
  expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
});

test("a secret is named by file, line, kind and commit, and never shown", async () => {
  const { write, commit, look, git } = repository();
  write("a b.txt", `one\ntwo\nuse ${TOKEN} here\n`);
  commit("work");
  const { secrets: found } = await look();
  expect(found).toEqual([{ commit: git("rev-parse", "HEAD").trim(), path: "a b.txt", line: 3, kind: "GitHub token" }]);
  expect(JSON.stringify(found)).not.toContain(TOKEN);
});

test("a later commit that takes it away does not take it out of the history", async () => {
  const { write, commit, look } = repository();
  write("a.txt", `${TOKEN}\n`);
  commit("adds it");
  write("a.txt", "gone\n");
  commit("removes it");
  expect((await look()).secrets).toMatchObject([{ path: "a.txt", line: 1, kind: "GitHub token" }]);
});

test("binary files, private keys, values of the environment, and lines that look like headers of a patch", async () => {
  const { write, commit, look } = repository();
  process.env["PUSHED_TEST_TOKEN"] = "a value of my own";
  onTestFinished(() => void delete process.env["PUSHED_TEST_TOKEN"]);
  write("binary", Buffer.concat([Buffer.from([0, 1, 2, 0xff]), Buffer.from(TOKEN), Buffer.from([0])]));
  write("key.pem", ["-----BEGIN RSA PRIVATE ", "KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"].join(""));
  write("own.txt", "it is a value of my own\n");
  write("patch.txt", `++ b/elsewhere\n${TOKEN}\n`);
  commit("work");
  const found = (await look()).secrets.map(({ path, line, kind }) => `${path}:${line} ${kind}`).toSorted();
  expect(found).toEqual([
    "binary:1 GitHub token",
    "key.pem:1 private key",
    "own.txt:1 value of PUSHED_TEST_TOKEN",
    "patch.txt:2 GitHub token",
  ]);
});

test("a message of a commit is published too", async () => {
  const { write, commit, look } = repository();
  write("a.txt", "a\n");
  commit(`adds a\n\nwith ${TOKEN}`);
  expect((await look()).secrets).toMatchObject([{ path: "commit message", kind: "GitHub token" }]);
});

test("examples of documentation are no secrets", async () => {
  const { write, commit, look } = repository();
  write("README.md", "AKIAIOSFODNN7EXAMPLE\npassword: hunter2000\npostgres://me:secret99@localhost/db\n");
  commit("docs");
  expect((await look()).secrets).toEqual([]);
});

test("what a merge commit alone adds is found, and what one of its parents has is not", async () => {
  const { write, commit, look, git } = repository();
  git("switch", "-q", "main");
  write("theirs.txt", `published: ${OLD}\n`);
  commit("theirs");
  git("push", "-q", "origin", "main");
  git("switch", "-q", "work");
  write("a.txt", "a\n");
  commit("work");
  git("merge", "-q", "--no-commit", "--no-ff", "main");
  git("commit", "-qm", "clean merge");
  expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
  git("reset", "-q", "--hard", "HEAD^");
  git("merge", "-q", "--no-commit", "--no-ff", "main");
  write("b.bin", Buffer.from(`\0${TOKEN}\n`));
  write("a.txt", `a\n${TOKEN}\n`);
  commit("merge");
  expect((await look()).secrets.map(({ path, line, kind }) => `${path}:${line} ${kind}`)).toEqual([
    "a.txt:2 GitHub token",
    "b.bin:1 GitHub token",
  ]);
});

test("a line that is too long, and what follows too many changes, is named as not searched", async () => {
  const { write, commit, look } = repository();
  write("long.txt", `${"a ".repeat(2_500_000)}${TOKEN}${" b".repeat(500_000)}\n`);
  commit("long");
  expect(await look()).toMatchObject({
    secrets: [],
    unsearched: [{ path: "long.txt", line: 1, kind: "not searched: a line of more than 4 MB" }],
  });
  write("long.txt", `${`${"0123456789 ".repeat(1000)}\n`.repeat(6500)}${TOKEN}\n`);
  commit("much");
  expect((await look()).unsearched).toMatchObject([
    { path: "long.txt", kind: "not searched: all that follows the first 64 MB of changes" },
  ]);
});

test("names of files and of people are searched, and a name is never shown with its secret", async () => {
  const { write, commit, look, git } = repository();
  write(`${TOKEN}.txt`, "");
  commit("empty file");
  git("-c", `user.name=${OLD}`, "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "by");
  const { secrets: found } = await look();
  expect(found.map(({ path, kind }) => `${path} ${kind}`).toSorted()).toEqual([
    expect.stringMatching(/\.txt GitHub token$/),
    "commit author GitLab token",
    "committer GitLab token",
  ]);
  expect(JSON.stringify(found)).not.toContain(TOKEN);
});

test("a ref of a remote that only this repository has hides no commit", async () => {
  const { write, commit, look, git } = repository();
  write("a.txt", `${TOKEN}\n`);
  commit("work");
  git("update-ref", "refs/remotes/origin/cache", "HEAD");
  git("update-ref", "refs/remotes/origin/main", "HEAD");
  expect((await look()).secrets).toMatchObject([{ path: "a.txt", line: 1 }]);
});

test("a branch of the remote that this repository has never fetched does no harm", async () => {
  const { write, commit, look, git } = repository();
  write("b.txt", "b\n");
  commit("other");
  git("push", "-q", "origin", "work:other");
  git("reset", "-q", "--hard", "HEAD^");
  git("update-ref", "-d", "refs/remotes/origin/other");
  git("reflog", "expire", "--expire=now", "--all");
  git("gc", "-q", "--prune=now");
  write("a.txt", "a\n");
  commit("work");
  expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
});

test("a message that closes a foreign issue or notifies a group is named line by line, the run's own issue is not", async () => {
  const { write, commit, look, git } = repository();
  write("a.txt", "a\n");
  commit("add @types/node\n\nCloses #42\nsee #7 and @param, mail a@example.org");
  expect((await look()).references).toEqual([]);
  write("a.txt", "b\n");
  commit(`resolves other/app#42\n\nthanks @everyone for ${TOKEN}`);
  const head = git("rev-parse", "HEAD").trim();
  expect((await look()).references).toEqual([
    { commit: head, text: "resolves other/app#42" },
    { commit: head, text: "thanks @everyone for ***" },
  ]);
});

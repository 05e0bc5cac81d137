import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { isRefAbsent, listRefFiles, readGitDirHead, readRefFiles } from "./ref-files.ts";

test("refs in files and packed refs are read as git reads them; only what is surely absent counts as absent", () => {
  const repo = startCommitted();
  const place = repo.path(".git");
  const commit = repo.git("rev-parse", "HEAD").trim();
  repo.git("update-ref", "refs/heads/packed/one", commit);
  repo.git("pack-refs", "--all");
  repo.git("update-ref", "refs/heads/loose/one", commit);
  repo.git("symbolic-ref", "refs/heads/link", "refs/heads/packed/one");
  expect(existsSync(repo.path(".git/refs/heads/packed/one"))).toBe(false);

  const names = ["packed/one", "loose/one", "link", "gone", "../../HEAD", "main~0"].map((name) => `refs/heads/${name}`);
  expect(readRefFiles(place, names)).toEqual([commit, commit, commit, null, null, null]);
  expect(readGitDirHead(place)).toBe(commit);
  const absent = (name: string) => isRefAbsent(place, name);
  expect(["refs/heads/gone", "refs/heads/pack", "refs/holdfast", "refs/heads/loose/two"].map(absent)).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect(
    ["refs/heads/packed/one", "refs/heads/packed", "refs/heads/loose", "refs/heads/link", "HEAD", "refs/heads/g*"].map(
      absent,
    ),
  ).toEqual([false, false, false, false, false, false]);
});

test("refs below a folder are listed as git lists them; git is asked about a symbolic ref", () => {
  const repo = startCommitted();
  const place = repo.path(".git");
  const commit = repo.git("rev-parse", "HEAD").trim();
  for (const name of ["packed/one", "packed", "moved", "gone"].map((each) => `refs/tags/${each}.x`))
    repo.git("update-ref", name, commit);
  repo.git("pack-refs", "--all");
  repo.write("a.txt", "two\n");
  repo.git("commit", "-qam", "second");
  for (const name of ["refs/tags/moved.x", "refs/heads/\u00fc/b", "refs/heads/z"]) repo.git("update-ref", name, "HEAD");
  repo.git("update-ref", "-d", "refs/tags/gone.x");
  repo.write(".git/refs/heads/z.lock", "");
  const folders = ["refs/heads/", "refs/tags/"];
  const listed = repo
    .git("for-each-ref", "--format=%(refname) %(objectname)", ...folders)
    .trimEnd()
    .split("\n");
  expect(Array.from(listRefFiles(place, folders) ?? [], (entry) => entry.join(" "))).toEqual(listed);
  expect(listed).toHaveLength(6);
  expect(listRefFiles(place, ["refs/none/"])).toEqual(new Map());
  repo.git("symbolic-ref", "refs/heads/link", "refs/heads/z");
  expect(listRefFiles(place, folders)).toBeNull();
  expect(listRefFiles(place, ["refs/tags/"])?.size).toBe(3);
});

test("where refs are not files, or a file cannot be read, nothing is known to be absent", () => {
  const repo = startCommitted();
  const place = repo.path(".git");
  // As in a repository with reftable.
  repo.write(".git/HEAD", "ref: refs/heads/.invalid\n");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(false);
  expect(listRefFiles(place, ["refs/heads/"])).toBeNull();
  repo.write(".git/HEAD", "ref: refs/heads/main\n");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(true);
  repo.write(".git/packed-refs/file", "");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(false);
  expect(listRefFiles(place, ["refs/heads/"])).toBeNull();
});

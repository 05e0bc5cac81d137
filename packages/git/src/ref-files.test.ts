import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { isRefAbsent, readGitDirHead, readRefFiles } from "./ref-files.ts";

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

test("where refs are not files, or a file cannot be read, nothing is known to be absent", () => {
  const repo = startCommitted();
  const place = repo.path(".git");
  // As in a repository with reftable.
  repo.write(".git/HEAD", "ref: refs/heads/.invalid\n");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(false);
  repo.write(".git/HEAD", "ref: refs/heads/main\n");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(true);
  repo.write(".git/packed-refs/file", "");
  expect(isRefAbsent(place, "refs/heads/gone")).toBe(false);
});

import { mkdir, mkdtemp, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { worktreePaths } from "./worktree-paths.ts";

let root: string;
let directory: string;
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-paths-")));
  root = join(directory, "repo");
  await mkdir(join(root, "src/auth"), { recursive: true });
  await mkdir(join(root, "trees/x/src"), { recursive: true });
  await symlink(join(root, "src"), join(directory, "link"));
});
afterAll(() => rm(directory, { recursive: true }));

const from = (cwd: string, ...paths: string[]) => worktreePaths({ paths, cwd, roots: [root] });

test("they count from where one stands", async () => {
  const src = join(root, "src");
  expect(await from(src, "a.txt", "./auth", "../b", ".", join(root, "c"))).toEqual([
    "src/a.txt",
    "src/auth",
    "b",
    "src",
    "c",
  ]);
  expect(await from(root, ".", "..x")).toEqual([".", "..x"]);
  expect(await from(join(directory, "link"), "a.txt")).toEqual(["src/a.txt"]);
});

test("out of the worktree is an error, never another file", async () => {
  await expect(from(root, "../a.txt")).rejects.toMatchObject({ code: "USAGE", message: expect.stringContaining(root) });
  await expect(from(directory, "src")).rejects.toMatchObject({ code: "USAGE" });
  await expect(from(root, "/etc/passwd")).rejects.toMatchObject({ code: "USAGE" });
});

test("an empty one is an error, not the whole folder", async () => {
  await expect(from(root, "a.txt", "")).rejects.toMatchObject({ code: "USAGE", message: "One of the paths is empty" });
  await expect(worktreePaths({ paths: [""], cwd: root, roots: [] })).rejects.toMatchObject({ code: "USAGE" });
});

test("the innermost worktree is meant; without one the paths stay", async () => {
  const inner = join(root, "trees/x");
  expect(await worktreePaths({ paths: ["src"], cwd: inner, roots: [root, inner] })).toEqual(["src"]);
  expect(await worktreePaths({ paths: ["src"], cwd: directory, roots: [] })).toEqual(["src"]);
});

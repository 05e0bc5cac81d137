import { mkdir, mkdtemp, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RUN_ID } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";
import { checkNewRunId, findRun, inScope, worktreePaths } from "./operands.ts";

describe("check run id", () => {
  test("an invalid id gets a valid suggestion", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 100 }), (id) => {
        try {
          checkNewRunId(id);
          expect(id).toMatch(RUN_ID);
        } catch (error) {
          if (!(error instanceof HoldfastError)) throw error;
          expect(/such as (.*)\.$/.exec(error.hint ?? "")?.[1]).toMatch(RUN_ID);
        }
      }),
    );
    expect(() => checkNewRunId("Fix Login!")).toThrow(
      expect.objectContaining({ hint: expect.stringContaining("fix-login.") }),
    );
    expect(() => checkNewRunId(undefined)).not.toThrow();
  });
});

describe("the run that an operand names", () => {
  let directory: string;
  let holdfast: Holdfast;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "holdfast-find-run-"));
    holdfast = await openHoldfast({ cwd: directory, store: join(directory, "store") });
    for (const id of ["fix-login", "fix-logout", "4", "other"]) await holdfast.createRun({ id, workspace: "none" });
    for (const number of [4, 42]) {
      const work = { kind: "issue", number, title: "A title" } as const;
      await holdfast.store.createRun({ id: `issue-${number}-x`, workflow: "impl", work });
    }
  });
  afterAll(async () => {
    await holdfast.close();
    await rm(directory, { recursive: true });
  });

  test.each([
    ["other", "other"],
    ["o", "other"],
    ["fix-logi", "fix-login"],
    ["42", "issue-42-x"],
    ["4", "4"],
    ["#4", "issue-4-x"],
  ])("%s is %s", async (typed, id) => expect((await findRun(holdfast, typed)).id).toBe(id));

  test("a prefix of several runs is refused with the candidates", async () => {
    await expect(findRun(holdfast, "fix")).rejects.toMatchObject({
      code: "USAGE",
      hint: "Name one of them: fix-logout, fix-login.",
      data: { candidates: ["fix-logout", "fix-login"] },
    });
    await expect(findRun(holdfast, "4x")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    await expect(findRun(holdfast, "5")).rejects.toMatchObject({ message: "There is no run for issue 5" });
  });

  test("the library opens a run by its whole id only", async () => {
    await expect(holdfast.run("othe")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  });
});

describe("worktree paths", () => {
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

  test("they are relative to the current directory", async () => {
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

  test("a path outside of the worktree is an error, never another file", async () => {
    await expect(from(root, "../a.txt")).rejects.toMatchObject({
      code: "USAGE",
      message: expect.stringContaining(root),
    });
    await expect(from(directory, "src")).rejects.toMatchObject({ code: "USAGE" });
    await expect(from(root, "/etc/passwd")).rejects.toMatchObject({ code: "USAGE" });
  });

  test("an empty one is an error, not the whole folder", async () => {
    await expect(from(root, "a.txt", "")).rejects.toMatchObject({
      code: "USAGE",
      message: "One of the paths is empty",
    });
    await expect(worktreePaths({ paths: [""], cwd: root, roots: [] })).rejects.toMatchObject({ code: "USAGE" });
  });

  test("the innermost worktree is used; without one the paths stay", async () => {
    const inner = join(root, "trees/x");
    expect(await worktreePaths({ paths: ["src"], cwd: inner, roots: [root, inner] })).toEqual(["src"]);
    expect(await worktreePaths({ paths: ["src"], cwd: directory, roots: [] })).toEqual(["src"]);
  });
});

describe("path scope", () => {
  test("a path, paths below it, and none that only has the same prefix", () => {
    expect(inScope("src/a.ts", null)).toBe(true);
    expect(inScope("src/a.ts", ["."])).toBe(true);
    expect(inScope("src/a.ts", ["src"])).toBe(true);
    expect(inScope("sub/", ["sub"])).toBe(true);
    expect(inScope("src2/a.ts", ["src"])).toBe(false);
    expect(inScope("src", ["src/a.ts"])).toBe(false);
  });
});

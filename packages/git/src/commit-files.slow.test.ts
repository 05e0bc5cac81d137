import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Branch } from "@holdfast/core/branch";
import { type BranchScene, createBranchScene, readWorktree } from "@holdfast/test-support/git/repository";

/**
 * Git is killed at its first call, then at its second, and so on. After each kill the same call must continue from what
 * the interrupted round left. Then the branch is reset.
 */
let scene: BranchScene;
const path = process.env["PATH"];
beforeEach(async () => {
  scene = await createBranchScene();
});
afterEach(() => {
  process.env["PATH"] = path;
  scene.dispose();
});

describe("git is killed at each of its calls", () => {
  test("commit", async () => {
    scene.tree.write("a.txt", "two\n");
    scene.tree.write("d/new.txt", "new\n");
    const calls = await survive(
      (branch) => branch.commit({ message: "Work", at: "2026-03-01T12:00:00Z", exclude: [] }),
      () => scene.tree.git("reset", "-q", "main"),
    );
    expect(calls).toBeGreaterThan(5);
    expect(scene.tree.git("rev-list", "--count", "main..HEAD").trim()).toBe("1");
    expect(scene.tree.git("status", "--porcelain")).toBe("");
  });

  test("rebase", async () => {
    scene.tree.write("a.txt", "two\n");
    await scene.branch.commit({ message: "Work", at: "2026-03-01T12:00:00Z", exclude: [] });
    const from = scene.tip();
    const onto = scene.moveBase({ "b.txt": "base\n", "e/f.txt": "f\n" });
    const calls = await survive(
      (branch) => branch.rebase({ onto, at: "2026-03-02T12:00:00Z" }),
      () => scene.tree.git("reset", "-q", "--hard", from),
    );
    expect(calls).toBeGreaterThan(10);
    expect(scene.tree.git("log", "--format=%s", `${onto}..HEAD`)).toBe("Work\n");
    expect(scene.tree.git("status", "--porcelain")).toBe("");
    expect(Object.keys(readWorktree(scene.tree.root)).sort()).toEqual([".gitignore", "a.txt", "b.txt", "e/f.txt"]);
  });
});

/** Returns the number of calls in the last, undisturbed round. Each interrupted round is repeated, and all have the same result. */
async function survive(act: (branch: Branch) => Promise<unknown>, undo: () => void): Promise<number> {
  const folder = join(scene.user.root, "..", "bin");
  const counter = join(folder, "count");
  mkdirSync(folder);
  const git = join(folder, "git");
  // The counter has one byte per call; the chosen call is killed before it begins.
  const script = [
    "#!/bin/sh",
    'printf . >> "$COUNTER"',
    '[ "$(wc -c < "$COUNTER")" -eq "$DIE_AT" ] && kill -9 $$',
    `PATH='${path}' exec git "$@"`,
  ];
  writeFileSync(git, script.map((line) => `${line}\n`).join(""));
  chmodSync(git, 0o755);
  process.env["COUNTER"] = counter;
  const ends = new Set<string>();
  for (let dieAt = 1; ; dieAt++) {
    rmSync(counter, { force: true });
    process.env["PATH"] = `${folder}:${path}`;
    process.env["DIE_AT"] = String(dieAt);
    const acting = scene.reopen().then(act);
    const result = await acting.then(
      (value) => JSON.stringify(value),
      () => null,
    );
    process.env["PATH"] = path;
    ends.add(result ?? JSON.stringify(await scene.reopen().then(act)));
    const calls = readFileSync(counter).length;
    if (calls < dieAt) {
      expect([...ends]).toHaveLength(1);
      return calls;
    }
    undo();
  }
}

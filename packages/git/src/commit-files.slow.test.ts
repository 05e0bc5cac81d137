import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Branch } from "@holdfast/core/workspace";
import { type BranchScene, createBranchScene, readWorktree } from "@holdfast/test-support/git/repository";

/**
 * git dies at its first call, at its second, and so on; whatever was left, the same call must go on from there. What a round that
 * was cut short left behind stays for the next one; only when one came to its end is the branch put back.
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

describe("git dies at each of its calls", () => {
  test("commit", async () => {
    scene.tree.write("a.txt", "two\n");
    scene.tree.write("d/new.txt", "new\n");
    const calls = await survive(
      (branch) => branch.commit({ message: "Work", at: "2026-03-01T12:00:00Z", exclude: [] }),
      () => scene.tree.git("reset", "-q", "main"),
    );
    expect(calls).toBeGreaterThan(10);
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
    expect(calls).toBeGreaterThan(20);
    expect(scene.tree.git("log", "--format=%s", `${onto}..HEAD`)).toBe("Work\n");
    expect(scene.tree.git("status", "--porcelain")).toBe("");
    expect(Object.keys(readWorktree(scene.tree.root)).sort()).toEqual([".gitignore", "a.txt", "b.txt", "e/f.txt"]);
  });
});

/** Returns the calls of the last round, which nothing disturbed. Every round that comes to its end must end alike. */
async function survive(act: (branch: Branch) => Promise<unknown>, undo: () => void): Promise<number> {
  const folder = join(scene.user.root, "..", "bin");
  const counter = join(folder, "count");
  mkdirSync(folder);
  const git = join(folder, "git");
  // One byte for each call; the chosen one is killed before it begins.
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
    if (result !== null) ends.add(result);
    const calls = readFileSync(counter).length;
    if (calls < dieAt) {
      expect([...ends]).toHaveLength(1);
      return calls;
    }
    if (result !== null) undo();
  }
}

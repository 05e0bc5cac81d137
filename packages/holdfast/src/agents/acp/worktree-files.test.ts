import { mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { createWorktreeFiles } from "./worktree-files.ts";

describe("files through us", () => {
  test("are those of the worktree, wherever a name or a link leads", ({ onTestFinished }) => {
    const folder = realpathSync(scratchDirectory(onTestFinished));
    const tree = join(folder, "tree");
    mkdirSync(join(tree, ".git"), { recursive: true });
    writeFileSync(join(folder, "secret"), "secret");
    symlinkSync(folder, join(tree, "out"));
    symlinkSync(join(folder, "new"), join(tree, "dangling"));
    const files = createWorktreeFiles(tree);
    const all = { line: null, limit: null };
    for (const path of [
      join(folder, "secret"),
      join(tree, "../secret"),
      join(tree, "out/secret"),
      join(tree, "out/made/by/it"),
      join(tree, "dangling"),
      join(tree, ".git/config"),
      "made.txt",
    ]) {
      expect(files.isInside(path), path).toBe(false);
      expect(files.read(path, all), path).toMatchObject({ kind: "refused" });
      expect(files.write(path, "x"), path).toMatchObject({ kind: "refused" });
    }
    expect(readFileSync(join(folder, "secret"), "utf8")).toBe("secret");
    const made = join(tree, "a/b/made.txt");
    expect(files.read(made, all)).toEqual({ kind: "absent" });
    expect(files.write(made, "1\n2\n3\n4\n")).toEqual({ kind: "written" });
    expect(files.read(made, all)).toEqual({ kind: "read", text: "1\n2\n3\n4\n" });
    expect(files.read(made, { line: 2, limit: 2 })).toEqual({ kind: "read", text: "2\n3" });
  });
});

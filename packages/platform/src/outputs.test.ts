import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createOutputs } from "./outputs.ts";

function place() {
  const root = scratchDirectory(onTestFinished);
  return { root, outputs: createOutputs(root), at: (path: string): string => join(root, path) };
}

test("a written output is read back, directories are created, and nothing else remains", async () => {
  const { root, outputs } = place();
  expect(await outputs.read(".tmp/deep/a.txt")).toBeNull();
  await outputs.write(".tmp/deep/a.txt", "één\n");
  await outputs.write(".tmp/deep/a.txt", "two\n");
  expect(await outputs.read(".tmp/deep/a.txt")).toBe("two\n");
  expect(readdirSync(join(root, ".tmp/deep"))).toEqual(["a.txt"]);
  await outputs.remove(".tmp/deep/a.txt");
  await outputs.remove(".tmp/deep/a.txt");
  await outputs.remove("never/was");
  expect(await outputs.read(".tmp/deep/a.txt")).toBeNull();
});

test("git does not list a hidden directory, and files that a crash left in it are removed", async () => {
  const { root, outputs, at } = place();
  execFileSync("git", ["init", "--quiet"], { cwd: root });
  mkdirSync(at(".tmp"));
  writeFileSync(at(`.tmp/.tmp-${"a".repeat(32)}-finalize.txt`), "half");
  writeFileSync(at(".tmp/.gitignore"), "!*\n");
  await outputs.hide(".tmp");
  await outputs.write(".tmp/finalize.txt", "x");
  expect(readdirSync(at(".tmp")).toSorted()).toEqual([".gitignore", "finalize.txt"]);
  expect(execFileSync("git", ["status", "--porcelain", "-uall"], { cwd: root }).toString()).toBe("");
});

test("a file or a link at the path of a hidden directory is replaced; the target of the link stays", async () => {
  const { outputs, at } = place();
  mkdirSync(at("src"));
  for (const put of [
    () => writeFileSync(at(".tmp"), "x"),
    () => symlinkSync("src", at(".tmp")),
    () => symlinkSync("/", at(".tmp")),
  ]) {
    rmSync(at(".tmp"), { recursive: true, force: true });
    put();
    await outputs.hide(".tmp");
    await outputs.write(".tmp/a.txt", "ours");
    expect(await outputs.read(".tmp/a.txt")).toBe("ours");
    expect(readdirSync(at("src"))).toEqual([]);
  }
});

test("gives the reason why an existing file is not read", async () => {
  const { outputs, at } = place();
  writeFileSync(at("big"), "x".repeat(1024 * 1024 + 1));
  writeFileSync(at("latin"), Buffer.from([0x66, 0xfc, 0x72]));
  writeFileSync(at("fine"), "text");
  expect(await outputs.refusal("big")).toMatch(/1048577 bytes/);
  expect(await outputs.refusal("latin")).toMatch(/UTF-8/);
  for (const name of ["fine", "none", "none/at/all"]) expect(await outputs.refusal(name)).toBeNull();
});

test("only small regular files of UTF-8 are read", async () => {
  const { outputs, at } = place();
  writeFileSync(at("big"), "x".repeat(1024 * 1024 + 1));
  writeFileSync(at("fits"), "x".repeat(1024 * 1024));
  writeFileSync(at("latin"), Buffer.from([0x66, 0xfc, 0x72]));
  writeFileSync(at("marked"), "\uFEFFtext");
  mkdirSync(at("directory"));
  execFileSync("mkfifo", [at("fifo")]);
  for (const name of ["big", "latin", "directory", "fifo", "fits/below"])
    expect(await outputs.read(name), name).toBeNull();
  expect((await outputs.read("fits"))?.length).toBe(1024 * 1024);
  expect(await outputs.read("marked")).toBe("text");
});

describe("links", () => {
  test("a file that is a link is not read, and writing replaces the link, not its target", async () => {
    const { outputs, at } = place();
    const outside = join(scratchDirectory(onTestFinished), "secret");
    writeFileSync(outside, "secret");
    symlinkSync(outside, at("link"));
    expect(await outputs.read("link")).toBeNull();
    await outputs.write("link", "ours");
    expect([readFileSync(outside, "utf8"), await outputs.read("link")]).toEqual(["secret", "ours"]);
    symlinkSync(outside, at("second"));
    await outputs.remove("second");
    expect(existsSync(outside)).toBe(true);
  });

  test("a directory that leads out of the worktree is refused, one inside is followed", async () => {
    const { outputs, at } = place();
    const outside = scratchDirectory(onTestFinished);
    writeFileSync(join(outside, "a.txt"), "theirs");
    symlinkSync(outside, at(".tmp"));
    expect(await outputs.read(".tmp/a.txt")).toBeNull();
    await outputs.remove(".tmp/a.txt");
    await expect(outputs.write(".tmp/a.txt", "x")).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(outputs.write(".tmp/deep/a.txt", "x")).rejects.toMatchObject({ code: "IO_FAILED" });
    expect(readdirSync(outside)).toEqual(["a.txt"]);
    expect(readFileSync(join(outside, "a.txt"), "utf8")).toBe("theirs");
    mkdirSync(at("real"));
    symlinkSync("real", at("inner"));
    await outputs.write("inner/a.txt", "ours");
    expect(readFileSync(at("real/a.txt"), "utf8")).toBe("ours");
    symlinkSync("loop", at("loop"));
    symlinkSync("nowhere", at("dangling"));
    await expect(outputs.write("loop/a.txt", "x")).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(outputs.write("dangling/a.txt", "x")).rejects.toMatchObject({ code: "IO_FAILED" });
  });
});

test.each(["", "/etc/passwd", "../up", "a/../b", "a//b", "./a", ".git/config", ".GIT/hooks/x", "a\0b"])(
  "%j is not a path for an output",
  async (path) => {
    const { outputs } = place();
    await expect(outputs.read(path)).rejects.toMatchObject({ code: "USAGE" });
    await expect(outputs.write(path, "x")).rejects.toMatchObject({ code: "USAGE" });
  },
);

test("a file at the path of a directory is reported", async () => {
  const { outputs, at } = place();
  writeFileSync(at(".tmp"), "a file");
  await expect(outputs.write(".tmp/a", "x")).rejects.toMatchObject({
    code: "IO_FAILED",
    hint: "Remove .tmp or move it away.",
  });
  mkdirSync(at("taken"));
  await expect(outputs.write("taken", "x")).rejects.toMatchObject({ code: "IO_FAILED" });
});

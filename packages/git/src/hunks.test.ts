import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FilePatch, Workspaces } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "./workspaces.ts";

const root = mkdtempSync(join(tmpdir(), "holdfast-hunks-"));
let workspaces: Workspaces;
const git = (...args: readonly string[]): string =>
  execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@b", ...args], { cwd: root, encoding: "utf8" }).trim();

/** Many equal lines: a hunk at a wrong position would still fit. */
const LINES = Array.from({ length: 60 }, () => "same\n");
const withLines = (change: Readonly<Record<number, string>>): string =>
  LINES.flatMap((line, at) => [change[at] ?? "", line]).join("");

beforeAll(async () => {
  git("init", "-q", "-b", "main");
  writeFileSync(join(root, "list"), withLines({}));
  writeFileSync(join(root, "latin"), Buffer.from([0xe9, 0x0a, 0xe8, 0x0a]));
  writeFileSync(join(root, "bin"), Buffer.from([0, 1, 2]));
  writeFileSync(join(root, "link"), "a file\n");
  writeFileSync(join(root, "tool"), "#!/bin/sh\n");
  writeFileSync(join(root, "gone"), "diff --git a/x b/x\n");
  git("add", ".");
  git("commit", "-qm", "one");
  writeFileSync(join(root, "list"), withLines({ 5: "first\n", 30: "second\n@@ -1 +1 @@\n", 55: "third\n" }));
  writeFileSync(join(root, "latin"), Buffer.from([0xe9, 0x0a, 0xe7, 0x0a]));
  writeFileSync(join(root, "bin"), Buffer.from([0, 1, 3]));
  rmSync(join(root, "link"));
  symlinkSync("list", join(root, "link"));
  chmodSync(join(root, "tool"), 0o755);
  rmSync(join(root, "gone"));
  writeFileSync(join(root, "ünew"), "new\n");
  git("add", ".");
  git("commit", "-qm", "two");
  workspaces = await openGitWorkspaces(root);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function apply(patches: readonly FilePatch[]): Promise<string> {
  const to = await (await workspaces.open(root)).look({ at: "2026-11-17T12:00:00.000Z" });
  return (await workspaces.withPatches({ from: git("rev-parse", "HEAD~1^{tree}"), to, patches })).tree;
}

const trees = (): { readonly from: string; readonly to: string } => ({
  from: git("rev-parse", "HEAD~1^{tree}"),
  to: git("rev-parse", "HEAD^{tree}"),
});

test("all hunks together give the target, for any files", async () => {
  const patches = await workspaces.patches(trees());
  expect(patches.map(({ path, hunks }) => `${path} ${hunks.length}`)).toEqual([
    "bin 1",
    "gone 1",
    "latin 1",
    "link 1",
    "list 3",
    "tool 1",
    "ünew 1",
  ]);
  expect(await apply(patches)).toBe(trees().to);
});

test("each hunk is applied at its position, also without those before it", async () => {
  const list = (await workspaces.patches(trees())).find(({ path }) => path === "list");
  const [, second = "", third = ""] = list?.hunks ?? [];
  for (const [hunks, change] of [
    [[third], { 55: "third\n" }],
    [[second], { 30: "second\n@@ -1 +1 @@\n" }],
    [[second, third], { 30: "second\n@@ -1 +1 @@\n", 55: "third\n" }],
  ] as const) {
    const tree = await apply([{ path: "list", header: list?.header ?? "", hunks }]);
    expect(git("cat-file", "-p", `${tree}:list`)).toBe(withLines(change).trim());
  }
  expect(git("status", "--porcelain")).toBe("");
});

import { chmodSync, lstatSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { createOutputs } from "@holdfast/platform/outputs";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type Copied, type CopyResult, copyIgnoredFiles, isCopyPattern, readCopiedVariables } from "./copy-files.ts";
import { createMasking } from "./mask.ts";

test.each([".env", "config/*.local.json", "**/.env", ".env*"])("%s may be copied", (pattern) => {
  expect(isCopyPattern(pattern)).toBe(true);
});

test.each(["/etc/passwd", "../.env", "a/../../b", "./.env", "", "a//b", ".git/config", ".GIT/config", "a\\b", "a\0b"])(
  "%j may not be copied",
  (pattern) => {
    expect(isCopyPattern(pattern)).toBe(false);
  },
);

test("ignored files are copied with their mode: when they are new, changed in the checkout, or gone", async () => {
  const { scene, copy } = await makeScene();
  scene.user.write(".env", "TOKEN=one\n");
  scene.user.write("config/a.local.json", "{}");
  chmodSync(scene.user.path("config/a.local.json"), 0o755);
  const patterns = [".env", "config/*.local.json"];
  const first = await copy(patterns);
  expect(first).toMatchObject({ written: [".env", "config/a.local.json"], problems: [] });
  expect(scene.tree.read(".env")).toBe("TOKEN=one\n");
  expect(statSync(scene.tree.path("config/a.local.json")).mode & 0o777).toBe(0o755);
  expect(scene.tree.git("status", "--porcelain")).toBe("");

  scene.tree.write(".env", "TOKEN=agent\n");
  expect(await copy(patterns, first.copied)).toMatchObject({ written: [], problems: [] });
  expect(scene.tree.read(".env")).toBe("TOKEN=agent\n");
  scene.user.write(".env", "TOKEN=two\n");
  scene.tree.remove("config/a.local.json");
  expect((await copy(patterns, first.copied)).written).toEqual([".env", "config/a.local.json"]);
  expect(scene.tree.read(".env")).toBe("TOKEN=two\n");
});

test("a tracked file, one that git does not ignore, and a missing one are reported and not copied", async () => {
  const { scene, copy } = await makeScene();
  scene.user.write("a.txt", "changed in the checkout\n");
  scene.user.write("plain.txt", "not ignored\n");
  const { written, problems } = await copy(["a.txt", "plain.txt", "nothing.env", "no-match-*"]);
  expect(written).toEqual([]);
  expect(problems).toEqual([
    expect.stringContaining("nothing.env is not in"),
    expect.stringMatching(/^a\.txt is not copied: git does not ignore it/),
    expect.stringMatching(/^plain\.txt is not copied: git does not ignore it/),
  ]);
  expect(scene.tree.read("a.txt")).not.toContain("changed in the checkout");
});

test("no link leads out: neither from the checkout nor into the worktree", async () => {
  const { scene, copy } = await makeScene();
  const outside = scratchDirectory(onTestFinished);
  scene.user.write("real/.env", "OUTSIDE=1\n");
  symlinkSync(scene.user.path("real/.env"), scene.user.path("linked.env"));
  symlinkSync(scene.user.path("real"), scene.user.path("folder.env"));
  const { written, problems } = await copy(["linked.env", "folder.env/.env"]);
  expect(written).toEqual([]);
  expect(problems).toHaveLength(2);
  // The branch of a run may bring a link to a folder of the user.
  mkdirSync(scene.user.path("config"));
  scene.user.write("config/b.local.json", "{}");
  symlinkSync(outside, scene.tree.path("config"));
  scene.user.write(".env", "TOKEN=one\n");
  expect(await copy(["config/*.local.json", ".env"])).toMatchObject({
    written: [".env"],
    problems: ["config/b.local.json is not copied: its folder in the worktree is a link"],
  });
  expect(lstatSync(`${outside}/b.local.json`, { throwIfNoEntry: false })).toBeUndefined();
});

test("secrets in the files are known to the mask, also if two files assign the same name", async () => {
  const { scene } = await makeScene();
  scene.user.write(".env", "# ours\nexport API_TOKEN='first-secret-value'\nPORT=8080\n");
  scene.user.write("b/.env", 'API_TOKEN="second-secret-value"\n');
  const { mask } = createMasking(readCopiedVariables(scene.user.root, ["**/.env", ".env"]));
  expect(mask("first-secret-value second-secret-value 8080")).toBe("*** *** 8080");
});

async function makeScene(): Promise<{
  readonly scene: BranchScene;
  copy(patterns: readonly string[], before?: Copied): Promise<CopyResult>;
}> {
  const scene = await createBranchScene();
  onTestFinished(() => scene.dispose());
  const workspaces = await openGitWorkspaces(scene.user.root);
  scene.user.write(".git/info/exclude", "*.env\n.env\n*.local.json\n/config\n");
  const workspace = await workspaces.open(scene.tree.root);
  const outputs = createOutputs(scene.tree.root);
  return {
    scene,
    copy: (patterns, before = {}) => copyIgnoredFiles({ from: scene.user.root, workspace, outputs, patterns, before }),
  };
}

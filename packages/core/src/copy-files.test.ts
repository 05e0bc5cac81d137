import { execFileSync } from "node:child_process";
import { chmodSync, lstatSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { createGitBranches } from "@holdfast/git/branches";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { createOutputs } from "@holdfast/platform/outputs";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import {
  type Copied,
  type CopyResult,
  copyIgnoredFiles,
  createCopiedFilesReader,
  isCopyPattern,
} from "./copy-files.ts";
import { learnLater } from "./known-secrets.ts";
import { createMasking } from "./mask.ts";
import type { Workspace } from "./workspace.ts";

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
  scene.user.write(".env", "# ours\nexport API_TOKEN='first-secret'\nPORT=8080\n");
  scene.user.write("b/.env", 'API_TOKEN="second-one"\n');
  let loads = 0;
  const read = await createCopiedFilesReader(scene.user.root, ["**/.env", ".env"]);
  const { mask } = createMasking();
  learnLater(() => {
    loads += 1;
    read();
  });
  expect(loads).toBe(0);
  expect(mask("first-secret second-one 8080")).toBe("*** *** 8080");
  expect(mask("first-secret")).toBe("***");
  expect(loads).toBe(1);
});

test.each([
  ["API_TOKEN=inline-0123456789 # a comment", "inline-0123456789"],
  ['API_TOKEN="quoted-0123456789" # a comment', "quoted-0123456789"],
  ["API_TOKEN=single-'0123456789", "single-'0123456789"],
  ["API_TOKEN='ticks 0123456789' # it's", "ticks 0123456789"],
  ["API_TOKEN=hash#0123456789", "hash#0123456789"],
  ["  export API_TOKEN = spaced-0123456789  ", "spaced-0123456789"],
  ["API_TOKEN=twice-first-012345\nAPI_TOKEN=twice-second-012345", "twice-first-012345"],
  ['API_TOKEN="first line of it 012345\nsecond line of it 012345"', "second line of it 012345"],
  ['API_TOKEN="unclosed-0123456789', "unclosed-0123456789"],
  ["API_TOKEN=windows-0123456789\r", "windows-0123456789"],
])("the value of %j is masked", async (text, value) => {
  const { scene } = await makeScene();
  scene.user.write(".env", `BEFORE=1\n${text}\nAFTER=2\n`);
  (await createCopiedFilesReader(scene.user.root, [".env"]))();
  const masked = createMasking().mask(`| ${value} |`);
  expect(masked).toContain("***");
  expect(masked).not.toContain("012345");
});

test("after the checkout's file changed, the old and the new value are masked", async () => {
  const { scene, copy } = await makeScene();
  const { mask } = createMasking();
  scene.user.write(".env", "API_TOKEN=value-before-rotation\n");
  const { copied } = await copy([".env"]);
  scene.user.write(".env", "API_TOKEN=value-after-rotation\n");
  await copy([".env"], copied);
  expect(mask("value-before-rotation, value-after-rotation")).toBe("***, ***");
  // Another process has only the copy in the worktree for the old value.
  scene.tree.write(".env", "API_TOKEN=value-in-the-worktree\n");
  await copy([".env"], {});
  expect(mask("value-in-the-worktree")).toBe("***");
});

test("a directory, a pipe and a large file are reported; a directory in the worktree stays", async () => {
  const { scene, copy } = await makeScene();
  scene.user.write("folder.env/a.env", "A=1\n");
  execFileSync("mkfifo", [scene.user.path("pipe.env")]);
  scene.user.write("large.env", `API_TOKEN=in-a-large-file\n${"x".repeat(1024 * 1024)}`);
  scene.user.write(".env", "A=1\n");
  scene.tree.write(".env/of-the-agent", "");
  const { written, problems } = await copy(["folder.env", "pipe.env", "large.env", ".env"]);
  expect(written).toEqual(["large.env"]);
  expect(problems).toEqual([
    "folder.env is not copied: it is a directory. Name its files, such as folder.env/**",
    "pipe.env is not copied: it is not a regular file",
    ".env is not copied: it is a directory in the worktree. Remove it there",
    "large.env has more than 1048576 bytes, so secrets in it are not masked",
  ]);
  expect(createMasking().mask("in-a-large-file")).toBe("in-a-large-file");
});

test.skipIf(process.getuid?.() === 0)("a file that cannot be read is an error with a hint", async () => {
  const { scene, copy } = await makeScene();
  scene.user.write(".env", "A=1\n");
  chmodSync(scene.user.path(".env"), 0);
  await expect(copy([".env"])).rejects.toMatchObject({
    code: "IO_FAILED",
    message: expect.stringContaining(".env cannot be copied into the worktree: it cannot be read (EACCES)"),
    hint: expect.stringContaining("workspace.copy"),
  });
  expect(await createCopiedFilesReader(scene.user.root, [".env"])).not.toThrow();
});

test("a copied file is in no snapshot and commit, although an agent un-ignores and adds it", async () => {
  const { scene, copy, workspace } = await makeScene();
  scene.user.write(".env", "API_TOKEN=never-in-a-commit\n");
  await copy([".env"]);
  const branch = await createGitBranches().of(scene.tree.root);
  const at = "2026-01-01T00:00:00Z";
  const listed = (tree: string): string => scene.tree.git("ls-tree", "-r", "--name-only", tree);
  const isCaptured = async (includeIgnored: boolean): Promise<boolean> =>
    listed((await workspace.look({ at, includeIgnored })).tree).includes(".env");
  expect(await isCaptured(true)).toBe(false);
  scene.user.write(".git/info/exclude", "");
  scene.tree.write("work.txt", "work\n");
  expect(await isCaptured(false)).toBe(false);
  scene.tree.git("add", "-A", "-f");
  expect(await isCaptured(false)).toBe(false);
  const made = await branch.commit({ message: "work", at, exclude: [] });
  expect(listed(made?.commit ?? "").split("\n")).toEqual(expect.not.arrayContaining([".env"]));
  expect(listed(made?.commit ?? "")).toContain("work.txt");
  expect(scene.tree.read(".env")).toBe("API_TOKEN=never-in-a-commit\n");
  expect(await branch.inspectPush({ issue: null })).toMatchObject({ secrets: [] });

  // A commit of the agent itself is not rewritten, and stops the push.
  scene.tree.git("add", "-A", "-f");
  scene.tree.git("commit", "-qm", "by the agent");
  scene.tree.write("more.txt", "more\n");
  expect(await isCaptured(false)).toBe(false);
  expect(listed((await branch.commit({ message: "more", at, exclude: [] }))?.commit ?? "")).toContain(".env");
  const { secrets } = await branch.inspectPush({ issue: null });
  expect(secrets.map(({ path, kind }) => `${path}: ${kind}`)).toEqual([
    ".env: file of workspace.copy",
    ".env: value of API_TOKEN in .env",
  ]);
});

test("a copied file under another name stops a push, with any line endings; so does a value in code, but not a common word", async () => {
  const { scene, copy } = await makeScene();
  const text = "COLOR=blue-and-green\nDB_USER=postgres\nDB_PASS=postgres\nMYSQL_PWD=hunter9\n";
  scene.user.write(".env", text);
  await copy([".env"]);
  scene.tree.write("d/.env.example", text.replaceAll("\n", "\r\n"));
  scene.tree.write("env.bak", text.trimEnd());
  scene.tree.write("a.txt", text);
  scene.tree.write("db.js", 'connect("postgres", "hunter9", "hunter91")\n');
  scene.tree.write("harmless.js", 'connect("postgres", "blue-and-green")\n');
  scene.tree.git("add", "-A");
  scene.tree.git("commit", "-qm", "by the agent");
  // The process that pushes may be another one than that which copied, and the user's file may be gone.
  scene.user.remove(".env");
  const branch = await createGitBranches().of(scene.tree.root);
  const { secrets } = await branch.inspectPush({ issue: null });
  const same = "same content as .env, a file of workspace.copy";
  expect(secrets.map(({ path, kind }) => `${path}: ${kind}`)).toEqual([
    `a.txt: ${same}`,
    "a.txt: value of MYSQL_PWD in .env",
    `d/.env.example: ${same}`,
    "d/.env.example: value of MYSQL_PWD in .env",
    "db.js: value of MYSQL_PWD in .env",
    `env.bak: ${same}`,
    "env.bak: value of MYSQL_PWD in .env",
  ]);
});

async function makeScene(): Promise<{
  readonly scene: BranchScene;
  readonly workspace: Workspace;
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
    workspace,
    copy: (patterns, before = {}) => copyIgnoredFiles({ from: scene.user.root, workspace, outputs, patterns, before }),
  };
}

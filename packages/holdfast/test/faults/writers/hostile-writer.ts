import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { FilesPlane } from "@holdfast/core/checkpoint";

/**
 * Acts as an attacker through every API that takes a name or a path. Prints one line each: what it tried, and the
 * answer. Usage: hostile-writer <repository> <folder outside>
 */
const [, , repository = "", outside = ""] = process.argv;

const holdfast = await openHoldfast({ cwd: repository });
const { store, workspaces } = holdfast;
if (workspaces === null) throw new Error("no repository");

const NAMES = [
  "../outside/canary",
  `${outside}/canary`,
  "a/../../../outside/x",
  "..",
  "",
  "a\0b",
  "-rf",
  "--upload-pack=touch x",
  "--output=pwned",
  ".git",
  "refs/heads/main",
  "$(touch${IFS}pwned)",
  "`touch pwned`",
  "a b",
  "x".repeat(300),
  "__proto__",
  "a\nb",
  "@{-1}",
  "*",
  "'; drop table runs; --",
];
for (const name of NAMES) {
  await report("createRun", () => store.createRun({ id: name, workflow: "none", work: { kind: "none" } }));
  await report("createRun with a worktree", () => holdfast.createRun({ id: name, workspace: "new" }));
  await report("getRun", () => store.getRun(name));
  await report("takeLease", () => store.takeLease({ run: name, label: name }));
  await report("getCheckpoint", () => store.getCheckpoint({ run: name, sequence: 1 }));
  await report("resolve", () => holdfast.resolve(name));
  await report("find", () => workspaces.find(name));
  await report("pin", () => workspaces.pin({ run: name, sequence: 1, snapshot: "HEAD" }));
  await report("unpin", () => workspaces.unpin([name, `refs/holdfast/${name}/1`]));
  await report("has", () => workspaces.has({ tree: name, snapshot: name }));
  await report("diff", () => workspaces.diff({ from: name, to: name, format: "patch" }));
  await report("diff of a path", () => workspaces.diff({ from: "HEAD", to: "HEAD", format: "patch", paths: [name] }));
  await report("setMeta", () => store.setMeta(name, name));
}

const run = await holdfast.createRun({ id: "victim", workspace: "here" });
mkdirSync(join(repository, "folder"));
writeFileSync(join(repository, "folder", "canary"), "inside\n");
await report("save", () => run.save());
for (const name of NAMES) {
  await report("tag", () => run.tag(1, name));
  await report("restore of a path", () => run.restore({ sequence: 1, paths: [name] }));
  await report("fork", () => run.fork({ sequence: 1, id: name }));
}

// A folder that was real when it was saved leads outside now.
rmSync(join(repository, "folder"), { recursive: true });
symlinkSync(outside, join(repository, "folder"));
await report("save over a link", () => run.save());
await report("restore through a link", () => run.restore({ sequence: 1 }));
rmSync(join(repository, "folder"), { recursive: true, force: true });
symlinkSync(outside, join(repository, "folder"));
await report("restore of one path through a link", () => run.restore({ sequence: 1, paths: ["folder/canary"] }));

// A checkpoint from elsewhere, whose tree has names that no git would take.
const files = (await run.get(1)).planes.files;
if (files !== null) {
  for (const name of ["..", ".git", "../outside", ".", "folder/../../outside"]) {
    const tree = forgeTree(name);
    const commit = execFileSync(
      "git",
      ["-C", repository, "-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-m", "x"],
      { encoding: "utf8" },
    ).trim();
    await restoreForged({ ...files, tree, snapshot: commit });
  }
  await restoreForged({
    ...files,
    tree: "--output=pwned",
    snapshot: "--output=pwned",
    ref: "../../outside/canary",
    worktree: outside,
  });
}
await run.close();
await holdfast.close();

async function restoreForged(plane: FilesPlane): Promise<void> {
  const { sequence } = await run.save({ planes: { files: plane } });
  await report(`restore of a forged tree ${plane.tree}`, () => run.restore({ sequence }));
}

function forgeTree(name: string): string {
  const blob = execFileSync("git", ["-C", repository, "hash-object", "-w", "--stdin"], {
    input: "pwned\n",
    encoding: "utf8",
  }).trim();
  const entry = Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")]);
  return execFileSync("git", ["-C", repository, "hash-object", "-w", "-t", "tree", "--literally", "--stdin"], {
    input: entry,
    encoding: "utf8",
  }).trim();
}

async function report(what: string, work: () => Promise<unknown>): Promise<void> {
  const result = await work().then(
    () => "done",
    (error: unknown) => (error instanceof HoldfastError ? error.code : `THREW ${String(error)}`),
  );
  writeSync(1, `${what}\t${result}\n`);
}

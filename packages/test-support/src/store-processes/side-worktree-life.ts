// A child process that places a side worktree, works in it, pins the result and removes it, until it is killed. It prints a line after
// each action.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { sideWorktreeKey } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "@holdfast/git/workspaces";

const [repository = "", base = ""] = process.argv.slice(2);
writeFileSync(`${process.env["COUNTER"] ?? ""}.pid`, String(process.pid));
const { sideWorktrees } = await openGitWorkspaces(repository);
const sideWorktree = { run: "r", name: "x" };
const { root, look } = await sideWorktrees.place({ ...sideWorktree, base, commit: base });
process.stdout.write("placed\n");
writeFileSync(join(root, "work.txt"), "work\n");
const at = "2026-01-02T03:04:05Z";
const commit = await sideWorktrees.commit({ run: "r", files: await look({ at }), at });
process.stdout.write(`held ${commit}\n`);
await sideWorktrees.remove({ run: "r", key: sideWorktreeKey("x"), holding: commit });
process.stdout.write("removed\n");

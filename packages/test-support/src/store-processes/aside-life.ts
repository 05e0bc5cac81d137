// A child process that places a side worktree, works in it, pins the result and removes it, until it is killed. It prints a line after
// each action.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asideKey } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "@holdfast/git/workspaces";

const [repository = "", base = ""] = process.argv.slice(2);
writeFileSync(`${process.env["COUNTER"] ?? ""}.pid`, String(process.pid));
const { asides } = await openGitWorkspaces(repository);
const aside = { run: "r", name: "x" };
const { root, look } = await asides.place({ ...aside, base, commit: base });
process.stdout.write("placed\n");
writeFileSync(join(root, "work.txt"), "work\n");
const { commit } = await look({ at: "2026-01-02T03:04:05Z" });
await asides.pin({ run: "r", commit });
process.stdout.write(`held ${commit}\n`);
await asides.remove({ run: "r", key: asideKey("x"), holding: commit });
process.stdout.write("removed\n");

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asideKey } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "@holdfast/git/workspaces";

/** A process of its own that makes an aside, works in it, pins that and removes it, as far as it lives. What is done it tells in lines. */
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

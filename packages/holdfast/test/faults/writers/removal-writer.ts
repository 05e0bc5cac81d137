import { execFileSync } from "node:child_process";
import { openHoldfast } from "../../../src/open.ts";
import { runHere, saveHere } from "./save-here.ts";
import { writeWorktree } from "./worktree.ts";

/**
 * Usage: removal-writer <repository> past | remove
 * past: a save, a fork with a worktree, a second ref, all refs packed by the user's git. remove: that ref, then that worktree.
 */
const [, , repository = "", plan = ""] = process.argv;

const holdfast = await openHoldfast({ cwd: repository });
const { workspaces } = holdfast;
if (workspaces === null) throw new Error(`${repository} is no repository`);
if (plan === "past") {
  const run = await runHere(holdfast);
  writeWorktree(repository, 1);
  await saveHere(run, 1);
  const commit = (await run.get(1)).planes.files?.snapshot ?? "";
  await (await run.fork({ sequence: 1, id: "gone" })).close();
  await workspaces.pin({ run: "gone", sequence: 9, snapshot: commit });
  execFileSync("git", ["branch", "theirs"], { cwd: repository });
  execFileSync("git", ["pack-refs", "--all"], { cwd: repository });
  await run.close();
} else {
  await workspaces.unpin(["refs/holdfast/gone/9"]);
  await workspaces.remove({ run: "gone", force: true });
}
await holdfast.close();

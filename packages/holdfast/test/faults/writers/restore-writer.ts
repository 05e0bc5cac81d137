import { openHoldfast } from "../../../src/open.ts";
import { printLine } from "./printed.ts";
import { runHere, saveHere } from "./save-here.ts";
import { writeWorktree } from "./worktree.ts";

/**
 * Usage: restore-writer <repository> past | restore
 * past: two saves, then unsaved edits. restore: back to the first save.
 */
const [, , repository = "", plan = ""] = process.argv;

const holdfast = await openHoldfast({ cwd: repository });
const run = await runHere(holdfast);
if (plan === "past") {
  for (const sequence of [1, 2]) {
    writeWorktree(repository, sequence);
    printLine({ kind: "saving", sequence });
    const { digest } = await saveHere(run, sequence);
    printLine({ kind: "saved", sequence, digest });
  }
  writeWorktree(repository, 3);
} else {
  for (const sequence of [3, 4]) printLine({ kind: "saving", sequence });
  const { undo, checkpoint } = await run.restore({ sequence: 1 });
  for (const { sequence, digest } of [undo, checkpoint].filter((made) => made !== null))
    printLine({ kind: "saved", sequence, digest });
}
await run.close();
await holdfast.close();

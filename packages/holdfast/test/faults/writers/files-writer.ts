import { openHoldfast } from "../../../src/open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { git } from "../judges/repository.ts";
import { printLine } from "./printed.ts";
import { runHere, saveHere } from "./save-here.ts";
import { writeWorktree } from "./worktree.ts";

/**
 * Edits a worktree as a user would, and saves it with the state; refused, it opens everything again and retries.
 * Usage: files-writer <repository> [commit]; with commit, the user also commits each edit with a git that syncs nothing.
 */
const [, , repository = "", commit = ""] = process.argv;

let sequence = 1;
let edited = 0;
for (let tries = 0; tries < 9 && !isDone(); tries += 1) await orRefused(attempt);

function isDone(): boolean {
  return sequence > 3;
}

async function attempt(): Promise<void> {
  const holdfast = await openHoldfast({ cwd: repository });
  const run = await runHere(holdfast);
  try {
    sequence = ((await run.latest())?.sequence ?? 0) + 1;
    for (; sequence <= 3; sequence += 1) {
      if (edited < sequence) edit();
      printLine({ kind: "saving", sequence });
      const { digest } = await saveHere(run, sequence);
      printLine({ kind: "saved", sequence, digest });
    }
  } finally {
    await orRefused(() => run.close());
    await orRefused(() => holdfast.close());
  }
}

async function orRefused(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    printLine({ kind: "refused", code: error.code, what: error.message });
  }
}

/** Errors here are the user's own, not Holdfast's. */
function edit(): void {
  try {
    writeWorktree(repository, sequence);
    if (commit === "commit") {
      git(repository, ["add", "-A"]);
      git(repository, ["commit", "-q", "-m", `edit ${sequence}`]);
    }
    edited = sequence;
  } catch (error) {
    printLine({ kind: "note", text: `the user could not edit: ${String(error)}` });
    process.exit(0);
  }
}

import { openHoldfast } from "../../../src/open.ts";
import { keepTwo } from "../judges/keep-two.ts";
import { printLine } from "./printed.ts";
import { runHere, saveHere } from "./save-here.ts";
import { writeWorktree } from "./worktree.ts";

/**
 * Usage: housekeeping-writer <repository> past | tidy
 * past: five saves. tidy: drops all but two, with their refs, and forks the newest into its own worktree.
 */
const [, , repository = "", plan = ""] = process.argv;

const holdfast = await openHoldfast({ cwd: repository });
const run = await runHere(holdfast);
if (plan === "past") {
  for (let sequence = 1; sequence <= 5; sequence += 1) {
    writeWorktree(repository, sequence);
    printLine({ kind: "saving", sequence });
    const { digest } = await saveHere(run, sequence, "automatic");
    printLine({ kind: "saved", sequence, digest });
  }
} else {
  const gc = await holdfast.planGc({ policy: keepTwo });
  const drops = gc.plans.flatMap(({ decisions }) =>
    decisions.flatMap(({ action, sequence }) => (action === "drop" ? [sequence] : [])),
  );
  for (const sequence of drops) printLine({ kind: "dropping", sequence });
  await holdfast.applyGc(gc);
  for (const sequence of drops) printLine({ kind: "dropped", sequence });
  await run.fork({ sequence: 5, id: "forked" });
  printLine({ kind: "note", text: "forked" });
}
await run.close();
await holdfast.close();

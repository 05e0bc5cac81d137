import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { openHoldfast } from "../../../src/app.ts";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { parseSaid } from "../writers/said.ts";
import { runHere } from "../writers/save-here.ts";
import { readWorktree, sameEntry, worktreeOf } from "../writers/worktree.ts";
import { repositoryIn } from "./files-subject.ts";
import { judgeFiles } from "./judge-files.ts";
import { judgeStore } from "./judge-store.ts";
import { keepTwo } from "./keep-two.ts";
import { openStore } from "./open-store.ts";
import { makeRepository } from "./repository.ts";

const NEWEST = 5;

/** Dropping checkpoints with their refs, then a fork: killed anywhere, what is still there is whole, and both can be done again. */
export function housekeepingSubject(): Subject {
  return {
    async prepare(root) {
      makeRepository(repositoryIn(root));
      const [file = "", ...args] = await writerCommand("housekeeping-writer", repositoryIn(root), "past");
      return execFileSync(file, args, { encoding: "utf8" })
        .split("\n")
        .filter((line) => line !== "");
    },
    command: (root) => writerCommand("housekeeping-writer", repositoryIn(root), "tidy"),
    judge:
      (earlier) =>
      async ({ root, said }) => {
        const repository = repositoryIn(root);
        const directory = join(repository, ".git", "holdfast");
        const lines = parseSaid([...earlier, ...said]);
        const { problems, found } = await judgeStore({ open: () => openStore(directory), directory, said: lines });
        const all = [...problems, ...judgeFiles(repository, found)];
        return all.length > 0 ? all : finish(repository);
      },
  };
}

async function finish(repository: string): Promise<readonly string[]> {
  const problems: string[] = [];
  const holdfast = await openHoldfast({ cwd: repository });
  try {
    const run = await runHere(holdfast);
    await holdfast.applyGc(await holdfast.planGc({ policy: keepTwo }));
    const forked = await run.fork({ sequence: NEWEST, id: "forked" });
    problems.push(
      ...judgeFiles(repository, [await forked.get(1)], () => NEWEST).map((problem) => `of the fork: ${problem}`),
    );
    const workspace = await forked.workspace();
    const [there, wanted] = [workspace === undefined ? new Map() : readWorktree(workspace.root), worktreeOf(NEWEST)];
    for (const path of new Set([...there.keys(), ...wanted.keys()]))
      if (!sameEntry(there.get(path), wanted.get(path))) problems.push(`the fork's worktree differs at ${path}`);
    const left = (await run.list()).map(({ sequence }) => sequence);
    if (left.join() !== "5,4") problems.push(`left are ${left.join()}, not the newest two`);
    for await (const event of holdfast.verify())
      if (event.kind === "problem") problems.push(`${event.problem.code} ${event.problem.what}`);
    await forked.close();
    await run.close();
  } finally {
    await holdfast.close();
  }
  return problems.map((problem) => `RESUME: ${problem}`);
}

import { openHoldfast } from "../../../src/open.ts";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { parsePrinted } from "../writers/printed.ts";
import { runHere } from "../writers/save-here.ts";
import { differences, readWorktree, worktreeOf } from "../writers/worktree.ts";
import { judgeFiles } from "./judge-files.ts";
import { keepTwo } from "./keep-two.ts";
import { makeRepository } from "./repository.ts";
import { judgeRepository, livePast, repositoryIn } from "./repository-judge.ts";

const NEWEST = 5;

/** Dropping checkpoints with their refs, then a fork: killed anywhere, what is still there is whole, and both can be done again. */
export function housekeepingSubject(): Subject {
  return {
    async prepare(root) {
      makeRepository(repositoryIn(root));
      return livePast("housekeeping-writer", root);
    },
    command: (root) => writerCommand("housekeeping-writer", repositoryIn(root), "tidy"),
    judge:
      (earlier) =>
      async ({ root, printed }) => {
        const { problems } = await judgeRepository(root, { printed: parsePrinted([...earlier, ...printed]) });
        return problems.length > 0 ? problems : finish(repositoryIn(root));
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
      ...judgeFiles(repository, [await forked.get(1)], { contentOf: () => NEWEST }).map(
        (problem) => `of the fork: ${problem}`,
      ),
    );
    const workspace = await forked.workspace();
    const there = workspace === undefined ? new Map() : readWorktree(workspace.root);
    for (const path of differences(there, worktreeOf(NEWEST))) problems.push(`the fork's worktree differs at ${path}`);
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

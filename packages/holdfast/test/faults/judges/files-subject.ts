import { openHoldfast } from "../../../src/open.ts";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { parsePrinted } from "../writers/printed.ts";
import { runHere, saveHere } from "../writers/save-here.ts";
import { writeWorktree } from "../writers/worktree.ts";
import { judgeFiles } from "./judge-files.ts";
import { git, makeRepository } from "./repository.ts";
import { judgeRepository, repositoryIn } from "./repository-judge.ts";

/** A repository whose worktree is saved together with the state. With commits: its user's git is at work too. */
export function filesSubject(commits: "commit" | "" = ""): Subject {
  return {
    async prepare(root) {
      makeRepository(repositoryIn(root));
      return [];
    },
    command: (root) => writerCommand("files-writer", repositoryIn(root), commits),
    judge:
      () =>
      async ({ root, printed }) => {
        const { problems, found } = await judgeRepository(root, { printed: parsePrinted(printed) });
        return problems.length > 0 ? problems : resume(repositoryIn(root), found);
      },
  };
}

/**
 * Saves what the dead writer was about to save: the same files, hence the same objects. One that the crash left behind torn must
 * not be taken for stored.
 */
async function resume(repository: string, found: readonly Checkpoint[]): Promise<readonly string[]> {
  const sequence = (found.at(-1)?.sequence ?? 0) + 1;
  writeWorktree(repository, sequence);
  const lostHead = findLostHead(repository);
  const holdfast = await openHoldfast({ cwd: repository });
  try {
    const run = await runHere(holdfast);
    const saved = await saveHere(run, sequence);
    const problems = saved.sequence === sequence ? [] : [`saved as ${saved.sequence}, not as ${sequence}`];
    problems.push(...judgeFiles(repository, [await run.get(saved.sequence)], { lostHead }));
    for await (const event of holdfast.verify())
      if (event.kind === "problem") problems.push(`${event.problem.code} ${event.problem.what}`);
    await run.close();
    return problems.map((problem) => `RESUME: ${problem}`);
  } finally {
    await holdfast.close();
  }
}

/** The user's last commit if git cannot read it: git does not sync what the user commits, so a power cut may lose it. */
function findLostHead(repository: string): string | null {
  const head = lineOf(repository, ["rev-parse", "--verify", "--quiet", "HEAD"]);
  const isWhole = lineOf(repository, ["rev-list", "--objects", "--quiet", "HEAD"]) !== null;
  return isWhole ? null : head;
}

function lineOf(repository: string, args: readonly string[]): string | null {
  try {
    return git(repository, args).toString().trim();
  } catch {
    return null;
  }
}

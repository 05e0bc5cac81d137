import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import type { Checkpoint, Planes } from "@holdfast/core/checkpoint";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { type PrintedLine, parsePrinted } from "../writers/printed.ts";
import { runHere } from "../writers/save-here.ts";
import { differences, IGNORED, readWorktree, sameEntry, worktreeOf } from "../writers/worktree.ts";
import { judgeFiles } from "./judge-files.ts";
import { makeRepository } from "./repository.ts";
import { judgeRepository, livePast, repositoryIn } from "./repository-judge.ts";

/** What the worktree held unsaved, and what the restore brings back. */
const [EDITED, TARGET] = [3, 1];
const PRIVATE = "never saved\n";

/** A restore over edits that were never saved: they must be in a checkpoint before the first of them is touched. */
export function restoreSubject(): Subject {
  return {
    async prepare(root) {
      const repository = repositoryIn(root);
      makeRepository(repository);
      writeFileSync(join(repository, IGNORED), PRIVATE);
      return livePast("restore-writer", root);
    },
    command: (root) => writerCommand("restore-writer", repositoryIn(root), "restore"),
    judge:
      (earlier) =>
      async ({ root, printed }) => {
        const repository = repositoryIn(root);
        const lines = parsePrinted([...earlier, ...printed]);
        const expected = ({ planes }: Checkpoint): Planes => planes;
        const { problems, found } = await judgeRepository(root, { printed: lines, expected, contentOf });
        const all = [...problems, ...judgeWorktree(repository, found, lines)];
        return all.length > 0 ? all : finish(repository);
      },
  };
}

/** Which of the worktrees a checkpoint of this run must hold. */
function contentOf({ sequence, trigger }: Checkpoint): number {
  if (trigger === "before_restore") return EDITED;
  return trigger === "restore" ? TARGET : sequence;
}

function judgeWorktree(
  repository: string,
  found: readonly Checkpoint[],
  printed: readonly PrintedLine[],
): readonly string[] {
  const problems: string[] = [];
  const now = readWorktree(repository);
  const [edited, target] = [worktreeOf(EDITED), worktreeOf(TARGET)];
  const touched = differences(now, edited);
  if (touched.length > 0 && !found.some(({ trigger }) => trigger === "before_restore"))
    problems.push(`LOST: ${touched[0]} was touched before it was saved`);
  for (const path of touched) {
    if (!sameEntry(now.get(path), target.get(path)))
      problems.push(`TORN: ${path} is neither what it was nor what it shall be`);
  }
  const done = printed.some((line) => line.kind === "saved" && line.sequence === 4);
  if (done && differences(now, target).length > 0)
    problems.push(`LOST: the restore was acknowledged, but ${differences(now, target)[0]} is another`);
  if (readFileSync(join(repository, IGNORED), "utf8") !== PRIVATE) problems.push("LOST: an ignored file was touched");
  return problems;
}

/** The same restore again completes it, and what was there before is still to be had. */
async function finish(repository: string): Promise<readonly string[]> {
  const problems: string[] = [];
  const holdfast = await openHoldfast({ cwd: repository });
  try {
    const run = await runHere(holdfast);
    await run.restore({ sequence: TARGET });
    problems.push(
      ...differences(readWorktree(repository), worktreeOf(TARGET)).map((path) => `RESUME: ${path} is not restored`),
    );
    const reasons: string[][] = [];
    for (const { sequence, trigger } of await run.list())
      if (trigger === "before_restore")
        reasons.push([...judgeFiles(repository, [await run.get(sequence)], { contentOf: () => EDITED })]);
    if (reasons.every((reason) => reason.length > 0))
      problems.push(`LOST: no checkpoint holds the edits from before the restore: ${reasons.join("; ")}`);
    for await (const event of holdfast.verify())
      if (event.kind === "problem") problems.push(`RESUME: ${event.problem.code} ${event.problem.what}`);
    await run.close();
  } finally {
    await holdfast.close();
  }
  return problems;
}

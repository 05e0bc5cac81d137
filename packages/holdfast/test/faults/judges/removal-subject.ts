import { existsSync, readdirSync, utimesSync } from "node:fs";
import { dirname, join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import type { Workspaces } from "@holdfast/core/workspace";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { differences, readWorktree, worktreeOf } from "../writers/worktree.ts";
import { git, makeRepository } from "./repository.ts";
import { livePast, repositoryIn } from "./repository-judge.ts";

const MINUTE = 60;

/**
 * Removes a packed ref and a worktree. After a kill at any point the user's own git still works, both can be removed
 * again, and a new worktree can be created at the same path.
 */
export function removalSubject(): Subject {
  return {
    async prepare(root) {
      makeRepository(repositoryIn(root));
      await livePast("removal-writer", root);
      return [];
    },
    command: (root) => writerCommand("removal-writer", repositoryIn(root), "remove"),
    judge:
      () =>
      async ({ root }) => {
        const repository = repositoryIn(root);
        await (await openHoldfast({ cwd: repository })).close();
        letTimePass(join(repository, ".git"));
        const holdfast = await openHoldfast({ cwd: repository });
        try {
          if (holdfast.workspaces === null) return [`${repository} is no repository any more`];
          return await judgeRemoval(repository, holdfast.workspaces);
        } finally {
          await holdfast.close();
        }
      },
  };
}

async function judgeRemoval(repository: string, workspaces: Workspaces): Promise<readonly string[]> {
  const problems: string[] = [];
  git(repository, ["branch", "-q", "-D", "theirs"]);
  git(repository, ["gc", "-q"]);
  const left = (await workspaces.list()).find(({ run }) => run === "gone");
  if (left?.exists === true && !sameFiles(left.path, 1)) problems.push("TORN: a part of the worktree is gone");
  await workspaces.unpin(["refs/holdfast/gone/9"]);
  await workspaces.remove({ run: "gone", force: true });
  if ((await workspaces.refs()).some(({ sequence }) => sequence === 9)) problems.push("RESUME: the ref is still there");
  const { root } = await workspaces.create({ run: "gone" });
  if (!sameFiles(root, 0)) problems.push("RESUME: the new worktree is not what was committed");
  const locks = readdirSync(join(repository, ".git"), { recursive: true, encoding: "utf8" });
  problems.push(...locks.filter((name) => name.endsWith(".lock")).map((name) => `RESUME: ${name} is left`));
  const places = readdirSync(dirname(root));
  if (places.join() !== "gone") problems.push(`RESUME: beside the worktree there are ${places.join()}`);
  return problems;
}

/** A lock that may be the user's is left alone for a while. */
function letTimePass(gitDir: string): void {
  const home = join(gitDir, "holdfast-workspace");
  for (const name of readdirSync(home)) if (name.startsWith("work-")) age(join(home, name), 3 * MINUTE);
  for (const name of ["packed-refs.lock", "packed-refs.new"]) age(join(gitDir, name), 2 * MINUTE);
}

function age(file: string, seconds: number): void {
  const time = Date.now() / 1000 - seconds;
  if (existsSync(file)) utimesSync(file, time, time);
}

function sameFiles(root: string, sequence: number): boolean {
  return differences(readWorktree(root), worktreeOf(sequence)).length === 0;
}

import { join } from "node:path";
import type { StandOn } from "../../ports/workspace.ts";
import { moveBranch } from "../branch/move-branch.ts";
import { replaceIndex } from "../branch/replace-index.ts";
import { readBranchTip, createBranch } from "./branch-tip.ts";
import type { CapturePlace } from "../capture/capture.ts";
import { createGit, gitFailure } from "../git/git-command.ts";
import { mendGitLink } from "./git-link.ts";
import { findOperation } from "../git/operation.ts";
import { pastLock } from "../git/past-lock.ts";
import { readHead } from "./read-head.ts";

/** Refs and index only, so that nothing which lies in the files can be lost by it. Killed in between, the same call again completes it. */
export async function standOn(place: CapturePlace, { branch, head, commits }: StandOn): Promise<boolean> {
  const { repository, root, gitDir } = place;
  const git = createGit({ cwd: root, gitDir, workTree: root });
  const linked = await mendGitLink(place);
  const underWay = (await findOperation(gitDir)) !== null;
  const [now, tip] = await Promise.all([readHead(place), readBranchTip(repository, branch)]);
  const moved = tip !== null && tip !== head && commits === "drop";
  const stands = now.branch === branch && tip !== null && !moved;
  if (stands && !underWay) return linked;
  if (tip === null) await createBranch(repository, { branch, commit: head });
  if (moved) await moveBranch({ place, name: branch, ref: branch }, { from: tip, to: head });
  if (!stands) {
    const args = ["symbolic-ref", "HEAD", branch];
    const stood = await pastLock(join(gitDir, "HEAD.lock"), () => git.result({ args }));
    if (stood.code !== 0) throw gitFailure(args, stood);
  }
  // What was staged of them would come back with the next commit made by hand, and a conflict would stay one.
  if (commits === "drop" || underWay) await replaceIndex(place, tip === null || moved ? head : tip);
  // Last: it is what tells a call after a kill that the rest is still to be done.
  if (underWay) await quitOperations(git, gitDir);
  return true;
}

/** Whoever began it is gone, and nobody will finish it: its state goes, files and commits stay. One may lie under another. */
async function quitOperations(git: ReturnType<typeof createGit>, gitDir: string): Promise<void> {
  for (let last: string | null = null; ;) {
    const operation = await findOperation(gitDir);
    if (operation === null || operation === last) return;
    // "HEAD": the place where a bisect stands, so that nothing is checked out.
    await git.result({ args: operation === "bisect" ? ["bisect", "reset", "HEAD"] : [operation, "--quit"] });
    last = operation;
  }
}

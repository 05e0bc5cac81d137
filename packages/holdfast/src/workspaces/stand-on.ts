import { join } from "node:path";
import type { StandOn } from "../ports/workspace.ts";
import { moveBranch } from "./branch/move-branch.ts";
import { replaceIndex } from "./branch/replace-index.ts";
import { readBranchTip, createBranch } from "./branch-tip.ts";
import type { CapturePlace } from "./capture.ts";
import { createGit, gitFailure } from "./git-command.ts";
import { mendGitLink } from "./git-link.ts";
import { findOperation } from "./operation.ts";
import { pastLock } from "./past-lock.ts";
import { readHead } from "./read-head.ts";

/** Refs and index only, so that nothing which lies in the files can be lost by it. Killed in between, the same call again completes it. */
export async function standOn(place: CapturePlace, { branch, head, commits }: StandOn): Promise<boolean> {
  const { repository, root, gitDir } = place;
  const mended = await mendGitLink(place);
  // In the middle of a rebase or a merge, HEAD is git's own; whoever commits next says what to do about that.
  if ((await findOperation(gitDir)) !== null) return mended;
  const [now, tip] = await Promise.all([readHead(place), readBranchTip(repository, branch)]);
  const moved = tip !== null && tip !== head && commits === "drop";
  if (now.branch === branch && tip !== null && !moved) return mended;
  if (tip === null) await createBranch(repository, { branch, commit: head });
  if (moved) await moveBranch({ place, name: branch, ref: branch }, { from: tip, to: head });
  const git = createGit({ cwd: root, gitDir, workTree: root });
  const args = ["symbolic-ref", "HEAD", branch];
  const stood = await pastLock(join(gitDir, "HEAD.lock"), () => git.result({ args }));
  if (stood.code !== 0) throw gitFailure(args, stood);
  // What was staged of them would come back with the next commit made by hand.
  if (commits === "drop") await replaceIndex(place, tip === null || moved ? head : tip);
  return true;
}

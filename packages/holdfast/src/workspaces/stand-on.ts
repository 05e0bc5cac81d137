import type { StandOn } from "../ports/workspace.ts";
import { readBranchTip, createBranch } from "./branch-tip.ts";
import type { CapturePlace } from "./capture.ts";
import { createGit } from "./git-command.ts";
import { mendGitLink } from "./git-link.ts";
import { findOperation } from "./operation.ts";
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
  if (moved) await repository.git.output({ args: ["update-ref", "--no-deref", branch, head, tip] });
  const git = createGit({ cwd: root, gitDir, workTree: root });
  await git.output({ args: ["symbolic-ref", "HEAD", branch] });
  // What was staged of them would come back with the next commit made by hand.
  if (commits === "drop") await git.output({ args: ["reset", "--mixed", "--quiet", "--no-refresh"] });
  return true;
}

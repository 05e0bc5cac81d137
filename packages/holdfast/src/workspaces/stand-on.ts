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
  const git = createGit({ cwd: root, gitDir, workTree: root });
  const linked = await mendGitLink(place);
  const quit = await quitOperations(git, gitDir);
  const [now, tip] = await Promise.all([readHead(place), readBranchTip(repository, branch)]);
  const moved = tip !== null && tip !== head && commits === "drop";
  const stands = now.branch === branch && tip !== null && !moved;
  if (stands && !quit) return linked;
  if (tip === null) await createBranch(repository, { branch, commit: head });
  if (moved) await repository.git.output({ args: ["update-ref", "--no-deref", branch, head, tip] });
  if (!stands) await git.output({ args: ["symbolic-ref", "HEAD", branch] });
  // What was staged of them would come back with the next commit made by hand, and a conflict would stay one.
  if (commits === "drop" || quit) await git.output({ args: ["reset", "--mixed", "--quiet", "--no-refresh"] });
  return true;
}

/** Whoever began it is gone, and nobody will finish it: its state goes, files and commits stay. One may lie under another. */
async function quitOperations(git: ReturnType<typeof createGit>, gitDir: string): Promise<boolean> {
  let quit = false;
  for (let last: string | null = null; ;) {
    const operation = await findOperation(gitDir);
    if (operation === null || operation === last) return quit;
    // "HEAD": the place where a bisect stands, so that nothing is checked out.
    const args = operation === "bisect" ? ["bisect", "reset", "HEAD"] : [operation, "--quit"];
    quit = (await git.result({ args })).code === 0 || quit;
    last = operation;
  }
}

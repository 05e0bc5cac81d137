import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { gitFailure } from "../git/git-command.ts";
import { pastLock } from "../git/past-lock.ts";
import type { Repository } from "../repository.ts";

export async function readBranchTip(repository: Repository, branch: string): Promise<string | null> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${branch}^{commit}`];
  const found = await repository.git.result({ args });
  return found.code === 0 ? found.stdout.toString("utf8").trim() : null;
}

/** Only where there is none: a branch that stands is somebody's, wherever it stands. */
export async function createBranch(
  repository: Repository,
  params: { readonly branch: string; readonly commit: string },
): Promise<void> {
  const { branch, commit } = params;
  const valid = await repository.git.result({ args: ["check-ref-format", branch] });
  if (valid.code !== 0 || !branch.startsWith("refs/heads/")) {
    throw new HoldfastError({ code: "USAGE", message: `${branch} is not the full name of a branch` });
  }
  const args = ["update-ref", branch, commit, repository.zero];
  const lock = join(repository.commonDir, `${branch}.lock`);
  const made = await pastLock(lock, () => repository.git.result({ args }));
  if (made.code === 0) return;
  const tip = await readBranchTip(repository, branch);
  if (tip === commit) return;
  if (tip === null) throw gitFailure(args, made);
  throw new HoldfastError({
    code: "CONFLICT",
    message: `Branch ${branch} is there already, at ${tip} instead of ${commit}`,
    hint: "Look at what made it, then resume again.",
    data: { branch, tip, wanted: commit },
  });
}

import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { RUN_ID } from "../../core/run/run.ts";
import { gitFailure } from "../git/git-command.ts";
import { findMissing } from "./objects.ts";
import { pastLock } from "../git/past-lock.ts";
import type { Repository } from "../repository.ts";

/**
 * A ref beside the snapshots' own, under the commit's name: no checkpoint names it, and gc, which sweeps snapshots without a
 * checkpoint, does not know it. The name says what it holds, so a second call finds it made.
 */
export async function keepCommit(
  repository: Repository,
  params: { readonly run: string; readonly commit: string },
): Promise<string> {
  const { run, commit } = params;
  if (!RUN_ID.test(run) || !ID.test(commit)) {
    throw new HoldfastError({ code: "USAGE", message: `${commit} of run ${run} cannot be kept under that name` });
  }
  if ((await findMissing(repository, [commit])).length > 0) {
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `Commit ${commit} is not in this repository`,
      hint: "Fetch it from where it is (`git fetch`), then try again.",
      data: { commit },
    });
  }
  const ref = `refs/holdfast/${run}/kept/${commit}`;
  const args = ["update-ref", ref, commit];
  const kept = await pastLock(join(repository.commonDir, `${ref}.lock`), () => repository.git.result({ args }));
  if (kept.code !== 0) throw gitFailure(args, kept);
  return ref;
}

const ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

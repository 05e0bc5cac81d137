import { existsSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { RUN_ID } from "../../core/run/run.ts";
import type { AsideRef } from "../../ports/aside.ts";
import { syncRepository } from "../objects/durable.ts";
import { gitFailure } from "../git/git-command.ts";
import { findMissing } from "../objects/objects.ts";
import type { Repository } from "../repository.ts";
import { missingCommit } from "./tree-of-commit.ts";

/**
 * Under the commit's own name, so that two asides of one moment share it, and what a kill repeats finds itself. A git that was killed leaves the lock of a
 * ref behind: then the next spare name serves.
 */
export async function pinAside(
  repository: Repository,
  params: { readonly run: string; readonly commit: string },
): Promise<string> {
  const { run, commit } = params;
  if (!RUN_ID.test(run) || !ID.test(commit)) {
    throw new HoldfastError({ code: "USAGE", message: `${commit} of run ${run} cannot be pinned under that name` });
  }
  if ((await findMissing(repository, [commit])).length > 0) throw missingCommit(commit);
  const plain = `refs/holdfast/${run}/aside/${commit}`;
  for (const ref of [plain, ...[...SPARE].map((digit) => plain + digit)]) {
    const args = ["update-ref", ref, commit];
    const made = await repository.git.result({ args });
    if (made.code === 0) {
      await syncRepository(repository);
      return ref;
    }
    if (!existsSync(join(repository.commonDir, `${ref}.lock`))) throw gitFailure(args, made);
  }
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `every name for ${plain} is locked`,
    hint: "Wait for the git that works there; if none is running, remove those lock files.",
    retry: "later",
  });
}

export async function listAsidePins(repository: Repository): Promise<readonly AsideRef[]> {
  const args = ["for-each-ref", "--format=%(objectname) %(refname) %(committerdate:unix)", "refs/holdfast/*/aside/**"];
  const listed = await repository.git.result({ args });
  return listed.stdout
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      const [, commit, ref, run, seconds] = LINE.exec(line) ?? [];
      if (commit === undefined || ref === undefined || run === undefined) return [];
      return [{ ref, run, commit, createdAt: new Date(Number(seconds) * 1000).toISOString() }];
    });
}

const ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const SPARE = "0123456789abcdef";
const LINE = /^([0-9a-f]+) (refs\/holdfast\/([^/]+)\/aside\/[0-9a-f]+) (\d+)$/;

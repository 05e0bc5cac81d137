import { HoldfastError } from "../../core/error.ts";
import type { PushResult } from "../../ports/branch.ts";
import { lookUpRemote, NO_REMOTE } from "./ask-remote.ts";
import { requireTip, type BranchPlace } from "./branch-place.ts";
import { classifyRefusal, parseReport } from "./classify-refusal.ts";
import { findRemote } from "./choose-remote.ts";
import { isAncestor } from "./history.ts";
import { runUserGit } from "./user-git.ts";

/**
 * Pushes the branch over what the remote is expected to have, and over nothing else: after a rebase that is the commit of the last push.
 * What is there already is not pushed again.
 */
export async function pushBranch(
  at: BranchPlace,
  params: { readonly expected: string | null; readonly configured: string | null },
): Promise<PushResult> {
  const { expected } = params;
  if (expected !== null && !/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(expected)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${JSON.stringify(expected)} is not a commit id`,
      hint: "Name the whole id of the last commit that was pushed, or null for none.",
    });
  }
  const remote = await findRemote(at, params.configured, "push");
  if (remote === null) return { kind: "refused", refusal: NO_REMOTE };
  const commit = await requireTip(at);
  const lease = `--force-with-lease=${at.ref}:${expected ?? ""}`;
  const args = ["push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", lease, "--", remote.name];
  // A commit graph can name other parents than the commits do. The push would send those too, and they were not searched for secrets.
  const result = await runUserGit(at, ["-c", "core.commitGraph=false", ...args, `${at.ref}:${at.ref}`]);
  const report = parseReport(result.stdout.toString("utf8"), at.ref);
  if (result.kind === "exited" && result.code === 0 && report !== undefined) {
    if (report.flag === "=") return { kind: "up_to_date", commit };
    return { kind: "pushed", commit, forced: report.flag === "+" };
  }
  const { stderr, failedHook } = result;
  const refusal = classifyRefusal({ report, failedHook, stderr, timedOut: result.kind === "timed_out" });
  if (refusal.cause !== "stale_lease") return { kind: "refused", refusal };
  const there = await lookUpRemote(at, params.configured, { branch: at.name, own: at.name });
  // The connection broke after the push had arrived, and the transport sent it once more by itself: that is what was refused.
  if (there.kind === "known" && there.commit === commit) return { kind: "up_to_date", commit };
  // Nothing was expected there, so this is no lease that went stale: somebody else's commits are in the way.
  const isFirst = expected === null && there.kind === "known" && there.commit !== null;
  if (isFirst && !(await isOurs(at, there.commit, commit)))
    return { kind: "refused", refusal: { ...refusal, cause: "non_fast_forward" } };
  return { kind: "refused", refusal };
}

/** A commit that is not even here cannot be one of ours. */
async function isOurs(at: BranchPlace, there: string, commit: string): Promise<boolean> {
  return isAncestor(at, { ancestor: there, of: commit }).catch(() => false);
}

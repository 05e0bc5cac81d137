import type { RebaseResult } from "../../ports/branch.ts";
import { requireCommit, requireQuiet, requireTip, requireTree, type BranchPlace } from "./branch-place.ts";
import { settle } from "./commit-files.ts";
import { parseTime } from "./commit-identity.ts";
import { isAncestor } from "./history.ts";
import { moveFiles } from "./move-files.ts";
import { readRebase, writeRebase } from "./rebase-record.ts";
import { replayCommits } from "./replay-commits.ts";

/**
 * New commits aside → written down → files → branch → index. The record stays: a call that is repeated after the branch has moved would
 * otherwise find nothing to do, while a restore has put the old files back.
 */
export async function rebase(
  at: BranchPlace,
  params: { readonly onto: string; readonly at: string },
): Promise<RebaseResult> {
  parseTime(params.at);
  await requireQuiet(at);
  const onto = await requireCommit(at, params.onto);
  const tip = await requireTip(at);
  const before = await readRebase(at.place);
  if (before?.to === tip && before.branch === at.name && before.onto === onto && before.at === params.at) {
    await takeOver(at, { from: before.from, to: tip, tip });
    return { kind: "rebased", commit: tip, from: before.from };
  }
  if (await isAncestor(at, { ancestor: onto, of: tip })) return { kind: "up_to_date", commit: tip };
  const replayed = await replayCommits(at, { head: tip, onto, at: params.at });
  if (replayed.kind === "conflict") return replayed;
  writeRebase(at.place, { branch: at.name, from: tip, to: replayed.commit, onto, at: params.at });
  await takeOver(at, { from: tip, to: replayed.commit, tip });
  return { kind: "rebased", commit: replayed.commit, from: tip };
}

async function takeOver(
  at: BranchPlace,
  params: { readonly from: string; readonly to: string; readonly tip: string },
): Promise<void> {
  const [from, to] = await Promise.all([requireTree(at, params.from), requireTree(at, params.to)]);
  await moveFiles(at.place, { from, to });
  await settle(at, { from: params.tip, to: params.to });
}

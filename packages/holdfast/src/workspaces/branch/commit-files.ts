import { HoldfastError } from "../../core/error.ts";
import type { CommitParams } from "../../ports/branch.ts";
import { syncRepository } from "../objects/durable.ts";
import { readTip, requireQuiet, requireTree, type BranchPlace } from "./branch-place.ts";
import { commitIdentity, parseTime } from "./commit-identity.ts";
import { readCommit, timeOf } from "./commit-object.ts";
import { moveBranch } from "./move-branch.ts";
import { replaceIndex } from "./replace-index.ts";
import { treeNow } from "./tree-now.ts";

/** objects → branch → index. Killed anywhere, the same call ends in the same commit. */
export async function commitFiles(
  at: BranchPlace,
  params: CommitParams,
): Promise<{ readonly commit: string; readonly tree: string } | null> {
  const message = cleanMessage(params.message);
  await requireQuiet(at);
  const { place } = at;
  const tip = await readTip(at);
  const base = tip === null ? place.repository.emptyTree : await requireTree(at, tip);
  const tree = await treeNow(place, { base, exclude: params.exclude });
  if (tree !== base) {
    const commit = await makeCommit(at, { tree, parent: tip, message, at: params.at });
    await settle(at, { from: tip, to: commit });
    return { commit, tree };
  }
  if (tip === null) return null;
  await settle(at, { from: tip, to: tip });
  const made = await isCommitOf(at, tip, { message, at: params.at });
  return made ? { commit: tip, tree } : null;
}

export async function makeCommit(
  at: BranchPlace,
  params: { readonly tree: string; readonly parent: string | null; readonly message: string; readonly at: string },
): Promise<string> {
  const env = await commitIdentity(at.git, params.at);
  const parents = params.parent === null ? [] : ["-p", params.parent];
  const args = ["commit-tree", params.tree, ...parents, "-F", "-"];
  return at.place.repository.objects.line({ args, input: Buffer.from(params.message), env });
}

/** Branch and index to a commit that is there; durable when it returns. */
export async function settle(
  at: BranchPlace,
  params: { readonly from: string | null; readonly to: string },
): Promise<void> {
  await moveBranch(at, params);
  await replaceIndex(at.place, params.to);
  await syncRepository(at.place.repository);
}

/**
 * Was this commit made by an earlier call with the same words and time? That call may have been killed after it moved the branch. Who is
 * named as author is not compared: the user's name may have been set in between.
 */
export async function isCommitOf(
  at: BranchPlace,
  commit: string,
  params: { readonly message: string; readonly at: string },
): Promise<boolean> {
  const made = await readCommit(at.place.repository, commit);
  const time = parseTime(params.at);
  const text = Buffer.from(made.message, "latin1").toString("utf8");
  return text === params.message && timeOf(made.author) === time && timeOf(made.committer) === time;
}

/** No commit message can hold a NUL byte, and git would cut the text there. */
export function cleanMessage(text: string): string {
  const message = text.replaceAll("\0", "\uFFFD").trim();
  if (message !== "") return `${message}\n`;
  throw new HoldfastError({
    code: "USAGE",
    message: "a commit needs a message",
    hint: "Give at least one line that says what was changed.",
  });
}

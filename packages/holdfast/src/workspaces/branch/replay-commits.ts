import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import { snapshotIdentity } from "../capture/snapshot-identity.ts";
import type { BranchPlace } from "./branch-place.ts";
import { commitIdentity, parseTime } from "./commit-identity.ts";
import { readCommit, writeCommit } from "./commit-object.ts";
import { mergeCommits } from "./merge-commits.ts";

export type Replayed =
  | { readonly kind: "replayed"; readonly commit: string }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

/**
 * The commits of `head` that `onto` lacks, one after the other on top of it, in objects alone: there is nothing to clean up after a
 * kill, and the same call makes the same ids. A merge on the branch counts as the change that it made there, so that what was
 * mended in it is not lost. Commits that `onto` has under another id, and those that change nothing any more, are left out.
 */
export async function replayCommits(
  at: BranchPlace,
  params: { readonly head: string; readonly onto: string; readonly at: string },
): Promise<Replayed> {
  const { repository } = at.place;
  const { head, onto } = params;
  const [own, marked, identity] = await Promise.all([
    at.git.line({ args: ["rev-list", "--reverse", "--first-parent", head, `^${onto}`] }),
    at.git.line({ args: ["rev-list", "--cherry-mark", "--right-only", "--no-merges", `${onto}...${head}`] }),
    commitIdentity(at.git, params.at),
  ]);
  const there = new Set(marked.split("\n").flatMap((line) => (line.startsWith("=") ? [line.slice(1)] : [])));
  const person = `${identity["GIT_COMMITTER_NAME"]} <${identity["GIT_COMMITTER_EMAIL"]}> ${parseTime(params.at)} +0000`;
  const committer = Buffer.from(person, "utf8").toString("latin1");
  let tip = onto;
  let tree = (await readCommit(repository, onto)).tree;
  for (const id of own.split("\n").filter((line) => line !== "" && !there.has(line))) {
    const commit = await readCommit(repository, id);
    const [parent] = commit.parents;
    const before = parent === undefined ? repository.emptyTree : (await readCommit(repository, parent)).tree;
    const merged = await mergeChange(at, { before, ours: tree, theirs: commit.tree });
    if (merged.conflicts.length > 0) {
      const subject = Buffer.from(commit.message.split("\n")[0] ?? "", "latin1").toString("utf8");
      const detail = `${id.slice(0, 12)} ${subject}\n${merged.detail}`;
      return { kind: "conflict", files: merged.conflicts, detail };
    }
    if (merged.tree === tree) continue;
    tree = merged.tree;
    tip = await writeCommit(repository, { ...commit, tree, parents: [tip], committer });
  }
  return { kind: "replayed", commit: tip };
}

/** Three trees, each as a commit of its own: git of this age merges commits, and finds their base by itself. */
async function mergeChange(
  at: BranchPlace,
  trees: { readonly before: string; readonly ours: string; readonly theirs: string },
): ReturnType<typeof mergeCommits> {
  const wrap = (tree: string, ...parents: readonly string[]): Promise<string> =>
    at.place.repository.objects.line({
      args: ["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", "rebase"],
      env: snapshotIdentity(0),
    });
  const before = await wrap(trees.before);
  const [ours, theirs] = await Promise.all([wrap(trees.ours, before), wrap(trees.theirs, before)]);
  return mergeCommits(at, { ours, theirs });
}

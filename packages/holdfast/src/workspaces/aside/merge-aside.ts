import type { Asides, AsideMerge } from "../../ports/aside.ts";
import { mergeCommits } from "../branch/merge-commits.ts";
import type { Git } from "../git/git-command.ts";
import type { Repository } from "../repository.ts";
import { snapshotIdentity } from "../capture/snapshot-identity.ts";
import { conflictExcerpt } from "./conflict-excerpt.ts";
import { commitSnapshot } from "./commit-snapshot.ts";
import { treeOfCommit } from "./tree-of-commit.ts";

/** In our private git directory, where no config of the user is read: the same three trees merge in the same way everywhere. */
export async function mergeAside(repository: Repository, params: Parameters<Asides["merge"]>[0]): Promise<AsideMerge> {
  const { ours } = params;
  const [base, theirs] = await Promise.all([
    treeOfCommit(repository, params.base),
    treeOfCommit(repository, params.theirs),
  ]);
  const before = await wrap(repository, base);
  const [left, right] = await Promise.all([wrap(repository, ours.tree, before), wrap(repository, theirs, before)]);
  const merged = await mergeCommits({ git: plainly(repository.objects) }, { ours: left, theirs: right });
  if (merged.conflicts.length > 0) {
    const { tree, conflicts: files } = merged;
    const told = [merged.detail, await conflictExcerpt(repository, { tree, files })].filter((part) => part !== "");
    const detail = told.join("\n\n").replaceAll(left, "the run's files").replaceAll(right, "the aside");
    return { kind: "conflict", files, detail };
  }
  const commit = await commitSnapshot(repository, { tree: merged.tree, like: ours, title: "merge", at: EPOCH });
  return { kind: "merged", to: { ...ours, tree: merged.tree, commit } };
}

const EPOCH = new Date(0).toISOString();

/** git of this age merges commits, and finds their base by itself. */
function wrap(repository: Repository, tree: string, ...parents: readonly string[]): Promise<string> {
  const args = ["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", "aside"];
  return repository.objects.line({ args, env: snapshotIdentity(0) });
}

/** A folder that one side moved draws no new files of the other side after it: they stay where they were put. */
function plainly(git: Git): Git {
  const call: Git["result"] = ({ args, ...rest }) =>
    git.result({ args: ["-c", "merge.directoryRenames=false", ...args], ...rest });
  return { ...git, result: call };
}

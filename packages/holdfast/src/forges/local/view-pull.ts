import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Mergeability, PullRequest } from "../../ports/forge.ts";
import { isAncestor, readBranch, type BareGit } from "./bare-git.ts";
import type { ForgePlace } from "./forge-place.ts";
import { mergeTree } from "./merge-tree.ts";
import { pullPath, type StoredPull } from "./pull-file.ts";

/** A pull request as it stands: what its file says, together with where its branches are now. */
export async function viewPull(place: ForgePlace, number: number, pull: StoredPull): Promise<PullRequest> {
  const [tip, base] = await Promise.all([readBranch(place.git, pull.head), readBranch(place.git, pull.base)]);
  const isOpen = pull.state === "open";
  const headCommit = isOpen ? (tip ?? pull.headCommit) : pull.headCommit;
  // Merged by hand and pushed, or by a call that was killed before it could write the file: it is in the base all the same.
  const isIn = isOpen && tip !== null && base !== null && (await isMerged(place.git, { tip, base, pull }));
  return {
    number,
    url: pathToFileURL(join(place.directory, pullPath(number))).href,
    title: pull.title,
    body: pull.body,
    state: isIn ? "merged" : pull.state,
    draft: pull.draft,
    head: pull.head,
    headCommit,
    base: pull.base,
    labels: pull.labels,
    mergeability: isOpen && !isIn ? await mergeabilityOf(place.git, { draft: pull.draft, tip, base }) : "unknown",
  };
}

async function isMerged(
  git: BareGit,
  at: { readonly tip: string; readonly base: string; readonly pull: StoredPull },
): Promise<boolean> {
  return (await isAncestor(git, at.tip, at.base)) && !(await isAncestor(git, at.tip, at.pull.baseCommit));
}

async function mergeabilityOf(
  git: BareGit,
  at: { readonly draft: boolean; readonly tip: string | null; readonly base: string | null },
): Promise<Mergeability> {
  if (at.tip === null || at.base === null) return "blocked";
  if (await isAncestor(git, at.tip, at.base)) return "blocked";
  const isCurrent = await isAncestor(git, at.base, at.tip);
  if (!isCurrent && (await mergeTree(git, at.base, at.tip)).kind === "conflict") return "conflicting";
  if (at.draft) return "blocked";
  return isCurrent ? "mergeable" : "behind";
}

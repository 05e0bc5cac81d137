import type { PullRequest } from "../../ports/forge.ts";
import { closedIssues } from "../closing-words.ts";
import { isAncestor, readBranch } from "./bare-git.ts";
import { applyChange } from "./change.ts";
import { withForgeLock } from "./forge-lock.ts";
import type { ForgePlace } from "./forge-place.ts";
import { closeIssue } from "./issues.ts";
import { mergeTree } from "./merge-tree.ts";
import { formatPull, pullPath, type StoredPull } from "./pull-file.ts";
import { refused, requirePull } from "./pulls.ts";
import { viewPull } from "./view-pull.ts";
import { gitIdentity } from "../../system/git-identity.ts";

/** A real merge commit on the base branch, then the file, then the issues that it closes. Killed in between, the same call goes on. */
export function mergePull(place: ForgePlace, number: number, params: { readonly head: string }): Promise<PullRequest> {
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    const merged = pull.state === "merged" ? pull : await mergeOpen(place, number, pull, params.head);
    for (const issue of closedIssues(merged.body)) closeIssue(place, issue);
    return viewPull(place, number, merged);
  });
}

async function mergeOpen(place: ForgePlace, number: number, pull: StoredPull, expected: string): Promise<StoredPull> {
  const [tip, base] = await Promise.all([readBranch(place.git, pull.head), readBranch(place.git, pull.base)]);
  if (pull.state === "closed") throw cannot(number, "closed", `pull request ${number} is closed`);
  if (tip === null) throw cannot(number, "head_missing", `the branch ${pull.head} is gone`);
  if (base === null) throw cannot(number, "base_missing", `the branch ${pull.base} is gone`);
  if (tip !== expected) throw cannot(number, "head_moved", `${pull.head} is at ${tip}, not at ${expected}`);
  if (pull.draft) throw cannot(number, "draft", `pull request ${number} is a draft`);
  const isIn = await isAncestor(place.git, tip, base);
  const mergeCommit = isIn ? base : await makeMerge(place, { number, pull, tip, base });
  const next: StoredPull = { ...pull, state: "merged", headCommit: tip, mergeCommit };
  applyChange(place, {
    path: pullPath(number),
    text: formatPull(next),
    mode: "replace",
    what: "pull_merged",
    number,
    key: null,
  });
  return next;
}

async function makeMerge(
  place: ForgePlace,
  at: { readonly number: number; readonly pull: StoredPull; readonly tip: string; readonly base: string },
): Promise<string> {
  const { number, pull, tip, base } = at;
  const merged = await mergeTree(place.git, base, tip);
  if (merged.kind === "conflict")
    throw cannot(number, "conflicting", `${pull.head} conflicts with ${pull.base} in ${merged.files.join(", ")}`);
  const message = `Merge pull request #${number} from ${pull.head}\n\n${pull.title}\n`;
  const args = ["commit-tree", merged.tree, "-p", base, "-p", tip, "-F", "-"];
  const commit = await place.git.line(args, { input: Buffer.from(message), env: identity(place) });
  const moved = await place.git.result(["update-ref", `refs/heads/${pull.base}`, commit, base]);
  if (moved.code !== 0) throw cannot(number, "base_moved", `${pull.base} moved while the merge was made`);
  return commit;
}

function identity(place: ForgePlace): Readonly<Record<string, string>> {
  const epochSeconds = Math.floor(place.clock.now() / 1000);
  return gitIdentity({ name: "Local forge", mail: "forge@localhost", epochSeconds });
}

function cannot(number: number, why: string, message: string): Error {
  return refused(`pull request ${number} cannot be merged: ${message}`, {
    hint: "Look at the pull request again; nothing was merged.",
    data: { why, number },
  });
}

import type { Finding } from "../../core/resume/finding.ts";
import type { ReliedOn } from "../../core/resume/relied-on.ts";
import type { Asking } from "../../ports/branch.ts";
import { openAskingBranch, reaches } from "./asking-branch.ts";
import type { Place } from "./observe-place.ts";
import type { WorkParts } from "../work-parts.ts";

/** What the remote has of the run's branch and of the branch that it goes to. */
export async function observeRemote(params: {
  readonly parts: WorkParts;
  readonly relied: ReliedOn;
  readonly place: Place;
  /** The pull request was merged: that the branch went with it is no news. */
  readonly merged: boolean;
  /** Commits that the stage has seen for itself: a question about them is its own, and asked once. */
  readonly seen: ReadonlySet<string>;
}): Promise<readonly Finding[]> {
  const { relied, place } = params;
  if (place.branch === null) return [];
  const branch = await openAskingBranch(params.parts, place);
  if (branch === null) return [unreachable("there is no worktree to ask from")];
  if ((await branch.remote()) === null) return [];
  const own = place.branch.replace(/^refs\/heads\//, "");
  const findings = place.head === null ? [] : await observeOwn({ ...params, branch, own, head: place.head });
  const base = relied.base === null ? [] : await observeBase(branch, relied.base);
  return [...findings, ...base].filter(
    (one, at, all) => one.kind !== "remote_unreachable" || all.findIndex(({ kind }) => kind === one.kind) === at,
  );
}

async function observeOwn(params: {
  readonly branch: Asking;
  readonly own: string;
  readonly head: string;
  readonly relied: ReliedOn;
  readonly merged: boolean;
  readonly seen: ReadonlySet<string>;
}): Promise<readonly Finding[]> {
  const { branch, own, head, relied } = params;
  const there = await branch.lookUpRemote(own);
  if (there.kind === "unknown") return [unreachable(there.reason)];
  const { commit } = there;
  if (commit === null) {
    if (relied.pushed === null || params.merged) return [];
    const summary = `${own} was pushed and is gone on the remote`;
    return [{ kind: "remote_branch_missing", summary, expected: relied.pushed, actual: null }];
  }
  if (commit === relied.pushed || commit === head || params.seen.has(commit)) return [];
  await branch.fetch();
  if (await reaches(branch, commit, head)) return [];
  const added = relied.pushed !== null && (await reaches(branch, relied.pushed, commit));
  const what = added ? "has commits on top of ours" : "was replaced, or never was ours";
  const summary = `${own} on the remote ${what}: it stands at ${commit}`;
  return [{ kind: "branch_diverged", summary, expected: { head, pushed: relied.pushed }, actual: { commit } }];
}

async function observeBase(branch: Asking, base: NonNullable<ReliedOn["base"]>): Promise<readonly Finding[]> {
  const name = base.branch ?? (await branch.defaultBranch());
  if (name === null || !OBJECT_ID.test(base.commit)) return [];
  const there = await branch.lookUpRemote(name);
  if (there.kind === "unknown") return [unreachable(there.reason)];
  if (there.commit === null || there.commit === base.commit) return [];
  const summary = `${name} has moved from ${base.commit} to ${there.commit}`;
  return [{ kind: "base_moved", summary, expected: base.commit, actual: there.commit }];
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

function unreachable(reason: string): Finding {
  const summary = `The remote does not say where the branch stands: ${reason}`;
  return { kind: "remote_unreachable", summary, expected: null, actual: reason };
}

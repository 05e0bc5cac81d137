// Compares a run's checkpoint with the git remote and the forge before a resume: its branch, its base, the issue and the pull request.

import { HoldfastError } from "@holdfast/platform/error";
import { type Adapters, findAnyWorktree } from "./adapters.ts";
import type { Asking } from "./branch.ts";
import { type Effect, isUndone } from "./effects.ts";
import { type Finding, type ReliedOn, compareInputs } from "./findings.ts";
import { type Forge, type PullRequest, readIssueWithComments } from "./forge.ts";
import { isObjectId } from "./journal.ts";
import { isJsonObject } from "./json.ts";
import { isRequestUndone } from "./run-statuses.ts";
import type { RunSummary } from "./run.ts";
import type { Workspaces } from "./workspace.ts";

/** Where the run's files are, for the questions to remote and forge. */
export interface Place {
  readonly findings: readonly Finding[];
  /** Tip of the run's branch now, or the checkpoint's head when the branch is gone. Null without files or commits. */
  readonly head: string | null;
  /** Full ref name of the run's branch. */
  readonly branch: string | null;
  /** The run's worktree; null when it is gone. */
  readonly root: string | null;
}

/** A run, and what is compared with the remote and the forge. */
interface ObservedRun {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly effects: readonly Effect[];
  readonly relied: ReliedOn;
  readonly place: Place;
}

interface KnownToRun {
  /** The pull request was merged. Then a missing remote branch is expected. */
  readonly merged: boolean;
  /** Commits that the stage has already seen. The stage asks about them itself, and the user is asked only once. */
  readonly seen: ReadonlySet<string>;
}

/** Observes the run's own branch and its base branch on the remote. */
export async function observeRemote(observed: ObservedRun, known: KnownToRun): Promise<readonly Finding[]> {
  const { adapters, relied, place } = observed;
  if (place.branch === null) return [];
  const branch = await openAskingBranch(adapters, place);
  if (branch === null) return [remoteUnreachable("there is no worktree to ask from")];
  if ((await branch.remote()) === null)
    return relied.base === null ? [] : await observeLocalBase(adapters.workspaces, branch, relied.base);
  const own = place.branch.replace(/^refs\/heads\//, "");
  const findings = place.head === null ? [] : await observeOwn(observed, { ...known, branch, own, head: place.head });
  const base = relied.base === null ? [] : await observeBase(branch, relied.base);
  return [...findings, ...base].filter(
    (one, at, all) => one.kind !== "remote_unreachable" || all.findIndex(({ kind }) => kind === one.kind) === at,
  );
}

async function observeOwn(
  observed: ObservedRun,
  params: KnownToRun & { readonly branch: Asking; readonly own: string; readonly head: string },
): Promise<readonly Finding[]> {
  const { relied } = observed;
  const { branch, own, head, merged, seen } = params;
  const there = await branch.lookUpRemote(own);
  if (there.kind === "unknown") return [remoteUnreachable(there.reason)];
  const { commit } = there;
  if (commit === null) {
    if (relied.pushed === null || merged || !isPushExpected(observed, own)) return [];
    const summary = `${own} was pushed and is missing on the remote`;
    return [{ kind: "remote_branch_missing", summary, expected: relied.pushed, actual: null }];
  }
  if (commit === relied.pushed || commit === head || seen.has(commit)) return [];
  await branch.fetch();
  if (await reaches(branch, commit, head)) return [];
  const added = relied.pushed !== null && (await reaches(branch, relied.pushed, commit));
  const what = added ? "has commits on top of ours" : "was replaced, or never was ours";
  const summary = `${own} on the remote ${what}: it is at ${commit}`;
  return [{ kind: "branch_diverged", summary, expected: { head, pushed: relied.pushed }, actual: { commit } }];
}

/** A fork holds the state of its parent, which pushed another branch. After an undo the branch is missing on purpose. */
function isPushExpected({ run, effects }: ObservedRun, own: string): boolean {
  const push = effects.findLast(({ kind, target }) => kind === "push" && target.endsWith(` ${own}`));
  return push === undefined ? run.forkedFrom === null : !isUndone(push);
}

async function observeBase(branch: Asking, base: NonNullable<ReliedOn["base"]>): Promise<readonly Finding[]> {
  const name = base.branch ?? (await branch.defaultBranch());
  if (name === null || !isObjectId(base.commit)) return [];
  const there = await branch.lookUpRemote(name);
  if (there.kind === "unknown") return [remoteUnreachable(there.reason)];
  if (there.commit === null || there.commit === base.commit) return [];
  const summary = `${name} has moved from ${base.commit} to ${there.commit}`;
  return [{ kind: "base_moved", summary, expected: base.commit, actual: there.commit }];
}

/** Without a remote, the base is a branch of this repository. The run's own branch may have begun with commits on top of it. */
async function observeLocalBase(
  workspaces: Workspaces | null,
  branch: Asking,
  { branch: name, commit }: NonNullable<ReliedOn["base"]>,
): Promise<readonly Finding[]> {
  if (workspaces === null || name === null || name === "HEAD" || !isObjectId(commit)) return [];
  const tip = await workspaces.branchTip(`refs/heads/${name}`);
  if (tip === commit || (tip !== null && (await reaches(branch, tip, commit)))) return [];
  const summary =
    tip === null ? `The branch ${name} is gone; it was at ${commit}` : `${name} has moved from ${commit} to ${tip}`;
  return [{ kind: "base_moved", summary, expected: commit, actual: tip }];
}

function remoteUnreachable(reason: string): Finding {
  const summary = `The remote does not report where the branch is: ${reason}`;
  return { kind: "remote_unreachable", summary, expected: null, actual: reason };
}

/** Observes the issue and the pull request. A forge that does not answer is a finding: unknown does not mean unchanged. */
export async function observeForge(
  observed: ObservedRun,
): Promise<{ readonly findings: readonly Finding[]; readonly merged: boolean }> {
  const { adapters, run, relied, effects } = observed;
  const mismatch = issueMismatch(run, relied);
  if (mismatch !== null) return { findings: [mismatch], merged: false };
  if (adapters.forge === null) {
    const findings =
      relied.issue === null ? [] : [forgeUnreachable("There is no forge configured that could be asked")];
    return { findings, merged: false };
  }
  try {
    const issue = await observeIssue(adapters.forge, relied);
    const request = await findOwnRequest(adapters.forge, observed);
    const findings = request === null ? [] : await observeRequest(observed, request);
    return { findings: [...issue, ...findings], merged: request?.state === "merged" };
  } catch (error) {
    if (!(error instanceof HoldfastError) || !SILENT.has(error.code)) throw error;
    // The remote alone named this forge. A run that never used it loses nothing when the user is not logged in.
    if (error.code === "FORGE_DENIED" && !reliesOnForge(relied, effects)) return { findings: [], merged: false };
    return { findings: [forgeUnreachable(error.message, waitOf(error))], merged: false };
  }
}

/** When to ask a forge again that may recover without help. Null: it will not; `until` null: it names no time. */
function waitOf({ retry, data }: HoldfastError): { readonly until: string | null } | null {
  if (retry !== "later") return null;
  return { until: typeof data["until"] === "string" ? data["until"] : null };
}

const SILENT: ReadonlySet<string> = new Set(["FORGE_FAILED", "FORGE_DENIED"]);

/** A checkpoint of another issue must not continue under this run's name: issue 4 is not issue 42. */
function issueMismatch(run: RunSummary, { issue }: ReliedOn): Finding | null {
  if (run.work.kind !== "issue" || issue === null || issue.number === run.work.number) return null;
  const summary = `Run ${run.id} is for issue ${run.work.number}, and its checkpoint is for issue ${issue.number}`;
  return { kind: "issue_mismatch", summary, expected: run.work.number, actual: issue.number };
}

async function observeIssue(forge: Forge, { issue }: ReliedOn): Promise<readonly Finding[]> {
  if (issue === null) return [];
  const rest = { task: null, base: null, plan: null };
  return compareInputs({
    saved: { issue, ...rest },
    current: { issue: await readIssueWithComments(forge, issue.number), ...rest },
  });
}

/**
 * Finds the pull request by its number when the run recorded one. Otherwise takes the newest of the branch if it contains the key of one of
 * this run's effects. An earlier run may have used the same branch name.
 */
async function findOwnRequest(
  forge: Forge,
  { relied, effects, place: { branch } }: ObservedRun,
): Promise<PullRequest | null> {
  const number = relied.pullRequest ?? numberOf(effects);
  if (number !== null) return await forge.getPullRequest(number);
  if (branch === null || effects.length === 0) return null;
  const found = await forge.findPullRequest(branch.replace(/^refs\/heads\//, ""));
  const ours = found !== null && effects.some(({ key }) => mentionsKey(found.body, key));
  return ours ? found : null;
}

function numberOf(effects: readonly Effect[]): number | null {
  for (const { kind, state } of effects.toReversed()) {
    if (!/pull.?request/.test(kind) || state.kind !== "done" || !isJsonObject(state.receipt)) continue;
    const number = state.receipt["number"];
    if (typeof number === "number") return number;
  }
  return null;
}

/** Matches the whole key: `r/pr/open` is not in a text that has only `r/pr/open.2`. */
export function mentionsKey(text: string, key: string): boolean {
  const places = text.split(key);
  return places.some((before, at) => {
    const after = places[at + 1];
    return after !== undefined && !/[a-z0-9._/-]$/i.test(before) && !/^[a-z0-9._/-]/i.test(after);
  });
}

async function observeRequest(
  { adapters, run, effects, place }: ObservedRun,
  { number, url, state, headCommit }: PullRequest,
): Promise<readonly Finding[]> {
  const name = `Pull request ${number}`;
  switch (state) {
    case "open":
      return [];
    case "closed": {
      const isOwn = await isRequestUndone(adapters.store, run.id, { url });
      const summary = isOwn ? `${name} is closed: you undid it` : `${name} was closed without being merged`;
      return [{ kind: "pull_request_closed", summary, expected: "open", actual: { number, url } }];
    }
    case "merged": {
      const own = mergesItself(effects);
      const merged: Finding = {
        kind: "pull_request_merged",
        summary: own ? `${name} was merged by this run` : `${name} was merged`,
        expected: "open",
        actual: { number, url, head: headCommit, ...(own ? { own } : {}) },
      };
      const { head } = place;
      if (head === null || (await isIn(adapters, place, head, headCommit))) return [merged];
      const summary = `${name} was merged at ${headCommit}, and the branch here has commits that are not in it`;
      const actual = { number, merged: headCommit };
      return [merged, { kind: "work_not_merged", summary, expected: { head }, actual }];
    }
  }
}

/** A workflow that merges its own pull request is still in the middle of its work and has more to do. */
function mergesItself(effects: readonly Effect[]): boolean {
  return effects.some((effect) => /merge/.test(effect.kind) && effect.state.kind !== "failed" && !isUndone(effect));
}

/** Whether the merge contains `head`. In doubt it does not: then the user is asked, and no commit is lost. */
async function isIn(adapters: Adapters, place: Place, head: string, merged: string): Promise<boolean> {
  if (head === merged) return true;
  const branch = await openAskingBranch(adapters, place);
  if (branch === null) return false;
  await branch.fetch();
  return await reaches(branch, head, merged);
}

function reliesOnForge(relied: ReliedOn, effects: readonly Effect[]): boolean {
  return relied.issue !== null || (relied.pullRequest ?? numberOf(effects)) !== null;
}

function forgeUnreachable(reason: string, wait: { readonly until: string | null } | null = null): Finding {
  const summary = `It is not known whether the issue or the pull request changed: ${reason}`;
  return { kind: "forge_unreachable", summary, expected: null, actual: wait === null ? reason : { reason, ...wait } };
}

/** Opens the repository to query the remote and the history. Uses any worktree when the run's own is gone; null when there is none. */
async function openAskingBranch(adapters: Adapters, place: Place): Promise<Asking | null> {
  const { workspaces, branches } = adapters;
  const folder = workspaces === null ? null : await findAnyWorktree(workspaces, place.root);
  return folder === null ? null : await branches.asking(folder);
}

/** A commit that is missing locally (it could not be fetched) is neither an ancestor nor a descendant. */
async function reaches(branch: Asking, ancestor: string, of: string): Promise<boolean> {
  try {
    return await branch.isAncestor({ ancestor, of });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "GIT_FAILED") return false;
    throw error;
  }
}

import type { Effect } from "../../core/effect/effect.ts";
import { HoldfastError } from "../../core/error.ts";
import { compareInputs } from "../../core/resume/finding.ts";
import type { Finding } from "../../core/resume/finding.ts";
import { isJsonObject } from "../../core/json.ts";
import type { ReliedOn } from "../../core/resume/relied-on.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Forge, PullRequest } from "../../ports/forge.ts";
import { openAskingBranch, reaches } from "./asking-branch.ts";
import type { Place } from "./observe-place.ts";
import type { WorkParts } from "../work-parts.ts";

/** The issue and the pull request. A forge that does not answer is a finding: not knowing is not "nothing changed". */
export async function observeForge(params: {
  readonly parts: WorkParts;
  readonly run: RunSummary;
  readonly relied: ReliedOn;
  readonly effects: readonly Effect[];
  readonly place: Place;
}): Promise<{ readonly findings: readonly Finding[]; readonly merged: boolean }> {
  const { parts, run, relied } = params;
  const mismatch = issueMismatch(run, relied);
  if (mismatch !== null) return { findings: [mismatch], merged: false };
  if (parts.forge === null) {
    const findings = relied.issue === null ? [] : [unreachable("There is no forge configured that could be asked")];
    return { findings, merged: false };
  }
  try {
    const issue = await observeIssue(parts.forge, relied);
    const request = await findOwnRequest(parts.forge, params);
    const findings = request === null ? [] : await observeRequest({ ...params, request });
    return { findings: [...issue, ...findings], merged: request?.state === "merged" };
  } catch (error) {
    if (!(error instanceof HoldfastError) || !SILENT.has(error.code)) throw error;
    // A run that never had anything there lost nothing when nobody is logged in: the remote alone named this forge.
    if (error.code === "FORGE_DENIED" && !reliesOnForge(relied, params.effects)) return { findings: [], merged: false };
    return { findings: [unreachable(error.message, waitOf(error))], merged: false };
  }
}

/** A forge that may answer later without any help, and when to ask it again (null: it names no time). */
function waitOf({ retry, data }: HoldfastError): { readonly until: string | null } | null {
  if (retry !== "later") return null;
  return { until: typeof data["until"] === "string" ? data["until"] : null };
}

const SILENT: ReadonlySet<string> = new Set(["FORGE_FAILED", "FORGE_DENIED"]);

/** Issue 4 is not issue 42: a checkpoint of another one must not be carried on under this name. */
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
    current: { issue: await forge.getIssue(issue.number), ...rest },
  });
}

/**
 * By its number when the run has written it down; else the newest of the branch, if it carries the key of one of our effects: an
 * earlier run may have had a branch and a pull request of the same name.
 */
async function findOwnRequest(
  forge: Forge,
  params: { readonly relied: ReliedOn; readonly effects: readonly Effect[]; readonly place: Place },
): Promise<PullRequest | null> {
  const number = params.relied.pullRequest ?? numberOf(params.effects);
  if (number !== null) return await forge.getPullRequest(number);
  const { branch } = params.place;
  if (branch === null || params.effects.length === 0) return null;
  const found = await forge.findPullRequest(branch.replace(/^refs\/heads\//, ""));
  const ours = found !== null && params.effects.some(({ key }) => mentions(found.body, key));
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

/** Whole: `r/pr/open` is not in a text that has only `r/pr/open.2`. */
function mentions(text: string, key: string): boolean {
  const places = text.split(key);
  return places.some((before, at) => {
    const after = places[at + 1];
    return after !== undefined && !/[a-z0-9._/-]$/i.test(before) && !/^[a-z0-9._/-]/i.test(after);
  });
}

async function observeRequest(params: {
  readonly parts: WorkParts;
  readonly request: PullRequest;
  readonly effects: readonly Effect[];
  readonly place: Place;
}): Promise<readonly Finding[]> {
  const { number, url, state, headCommit } = params.request;
  const name = `Pull request ${number}`;
  switch (state) {
    case "open":
      return [];
    case "closed": {
      const summary = `${name} was closed without being merged`;
      return [{ kind: "pull_request_closed", summary, expected: "open", actual: { number, url } }];
    }
    case "merged": {
      const own = mergesItself(params.effects);
      const merged: Finding = {
        kind: "pull_request_merged",
        summary: own ? `${name} was merged by this run` : `${name} was merged`,
        expected: "open",
        actual: { number, url, head: headCommit, ...(own ? { own } : {}) },
      };
      const { head } = params.place;
      if (head === null || (await isIn(params.parts, params.place, head, headCommit))) return [merged];
      const summary = `${name} was merged at ${headCommit}, and the branch here has commits that are not in it`;
      const actual = { number, merged: headCommit };
      return [merged, { kind: "work_not_merged", summary, expected: { head }, actual }];
    }
  }
}

/** A workflow that merges is in the middle of its own work then, and has more to do. */
function mergesItself(effects: readonly Effect[]): boolean {
  return effects.some(({ kind, state }) => /merge/.test(kind) && state.kind !== "failed");
}

/** In doubt it is not: then somebody is asked, and nothing is given up. */
async function isIn(parts: WorkParts, place: Place, head: string, merged: string): Promise<boolean> {
  if (head === merged) return true;
  const branch = await openAskingBranch(parts, place);
  if (branch === null) return false;
  await branch.fetch();
  return await reaches(branch, head, merged);
}

function reliesOnForge(relied: ReliedOn, effects: readonly Effect[]): boolean {
  return relied.issue !== null || (relied.pullRequest ?? numberOf(effects)) !== null;
}

function unreachable(reason: string, wait: { readonly until: string | null } | null = null): Finding {
  const summary = `It is not known whether the issue or the pull request changed: ${reason}`;
  return { kind: "forge_unreachable", summary, expected: null, actual: wait === null ? reason : { reason, ...wait } };
}

import { HoldfastError } from "../../core/error.ts";
import type { NewPullRequest, PullRequest } from "../../ports/forge.ts";
import { hasMarker, keepMarkers, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import { isAncestor, readBranch } from "./bare-git.ts";
import { applyChange } from "./change.ts";
import { withForgeLock } from "./forge-lock.ts";
import type { ForgePlace } from "./forge-place.ts";
import { createNumbered } from "./issues.ts";
import { formatPull, listPulls, pullPath, readPull, type StoredPull } from "./pull-file.ts";
import { viewPull } from "./view-pull.ts";

export async function findPull(place: ForgePlace, head: string): Promise<PullRequest | null> {
  const all = listPulls(place).filter(([, pull]) => pull.head === head);
  const views = await Promise.all(all.map(([number, pull]) => viewPull(place, number, pull)));
  return views.find(({ state }) => state === "open") ?? views[0] ?? null;
}

export async function getPull(place: ForgePlace, number: number): Promise<PullRequest | null> {
  const pull = readPull(place, number);
  return pull === null ? null : viewPull(place, number, pull);
}

export function createPull(place: ForgePlace, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const body = withMarker(request.body, request.key);
  return withForgeLock(place, async () => {
    const made = listPulls(place).find(([, pull]) => hasMarker(pull.body, request.key));
    if (made !== undefined) return viewPull(place, ...made);
    const commits = await requireNews(place, request);
    const there = await findPull(place, request.head);
    if (there?.state === "open") {
      throw refused(`pull request ${there.number} is open already for ${request.head}`, {
        hint: "Use that one, or close it first.",
        data: { why: "exists", number: there.number, url: there.url },
      });
    }
    const { title, head, base, draft, key } = request;
    const createdAt = new Date(place.clock.now()).toISOString();
    const state = { state: "open", draft, head, base, ...commits, mergeCommit: null } as const;
    const pull: StoredPull = { version: 1, title, body, ...state, createdAt, labels: [] };
    const number = createNumbered(place, (next) => ({
      path: pullPath(next),
      text: formatPull(pull),
      mode: "create",
      what: "pull_created",
      number: next,
      key,
    }));
    return viewPull(place, number, pull);
  });
}

export function updatePull(
  place: ForgePlace,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    const title = change.title ?? pull.title;
    const body = change.body === undefined ? pull.body : keepMarkers(change.body, pull.body);
    if (title === pull.title && body === pull.body) return viewPull(place, number, pull);
    const next = { ...pull, title, body };
    applyChange(place, {
      path: pullPath(number),
      text: formatPull(next),
      mode: "replace",
      what: "pull_updated",
      number,
      key: null,
    });
    return viewPull(place, number, next);
  });
}

export function setPullLabels(place: ForgePlace, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    if (pull.labels.length === wanted.length && wanted.every((label) => pull.labels.includes(label))) return;
    const text = formatPull({ ...pull, labels: wanted });
    applyChange(place, { path: pullPath(number), text, mode: "replace", what: "labels_set", number, key: null });
  });
}

export function requirePull(place: ForgePlace, number: number): StoredPull {
  const pull = readPull(place, number);
  if (pull !== null) return pull;
  throw refused(`there is no pull request ${number}`, {
    hint: "Name one that is in the pulls folder.",
    data: { why: "pull_missing", number },
  });
}

export function refused(
  message: string,
  more: { readonly hint: string; readonly data: Readonly<Record<string, unknown>> },
): HoldfastError {
  return new HoldfastError({ code: "FORGE_REFUSED", message, ...more });
}

async function requireNews(
  place: ForgePlace,
  { head, base }: NewPullRequest,
): Promise<Pick<StoredPull, "headCommit" | "baseCommit">> {
  const [headCommit, baseCommit] = await Promise.all([readBranch(place.git, head), readBranch(place.git, base)]);
  if (headCommit === null) {
    throw refused(`the branch ${head} was never pushed`, {
      hint: "Push it first, then create the pull request.",
      data: { why: "head_missing", head },
    });
  }
  if (baseCommit === null) {
    throw refused(`there is no branch ${base} to merge into`, {
      hint: "Name a branch that the forge has.",
      data: { why: "base_missing", base },
    });
  }
  if (!(await isAncestor(place.git, headCommit, baseCommit))) return { headCommit, baseCommit };
  throw refused(`${head} has nothing that ${base} lacks`, {
    hint: "Commit and push something first.",
    data: { why: "nothing_new", head, base },
  });
}

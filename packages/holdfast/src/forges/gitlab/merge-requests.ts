import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { NewPullRequest, PullRequest } from "../../ports/forge.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, keepMarkers, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import { writeOnce } from "../write-once.ts";
import {
  absent,
  hiddenWrite,
  locationOf,
  LONGEST_BODY,
  projectPath,
  readProject,
  type GitlabPlace,
} from "./project.ts";
import { draftTitle, MERGE_REQUEST, stateOf, viewMergeRequest, type MergeRequest } from "./view-merge-request.ts";

export async function findRequest(place: GitlabPlace, head: string): Promise<PullRequest | null> {
  const all = await listRequests(place, head);
  const found = all.find((request) => stateOf(request) === "open") ?? all[0];
  // Only asked for by itself is its status reckoned.
  return found === undefined ? null : await getRequest(place, found.iid);
}

export async function getRequest(place: GitlabPlace, number: number): Promise<PullRequest | null> {
  const found = await place.api.read(pathOf(place, number), MERGE_REQUEST);
  return found === null ? await absent(place) : viewMergeRequest(found);
}

/** What GitLab would take and nobody wants, a request of a branch that is not there or has nothing new, is refused before it is made. */
export async function createRequest(place: GitlabPlace, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const description = fitBody(request.body, LONGEST_BODY, (text) => withMarker(text, request.key));
  const made = await findMade(place, request);
  if (made !== null) return made;
  await requireNews(place, request);
  // A request is made in the project that it comes from.
  const path = `${projectPath(place.head)}/merge_requests`;
  const body = {
    source_branch: request.head,
    target_branch: request.base,
    title: draftTitle(request.title, request.draft),
    description,
    ...(place.head === place.project ? {} : { target_project_id: (await readProject(place)).id }),
  };
  return await writeOnce(place.api, {
    request: { method: "POST", path, body },
    done: (answer, what) => viewMergeRequest(place.api.parse(answer, MERGE_REQUEST, what)),
    find: () => findMade(place, request),
    async hidden() {
      await readProject(place);
      return hiddenWrite(place, "create a merge request");
    },
    async refused({ message }) {
      // Another one with the same key was quicker, or the same one a moment ago.
      const there = await findMade(place, request);
      if (there !== null) return there;
      const found = await findRequest(place, request.head);
      if (found?.state === "open") return exists(place, found);
      return refused(`no merge request can be made in ${locationOf(place)}: ${message}`, {
        hint: "Look at the project's rules for merge requests.",
        data: { why: "refused" },
      });
    },
  });
}

export async function updateRequest(
  place: GitlabPlace,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  const before = await requireRequest(place, number);
  const title = change.title ?? before.title;
  const body =
    change.body === undefined
      ? before.body
      : fitBody(change.body, LONGEST_BODY, (text) => keepMarkers(text, before.body));
  if (title === before.title && body === before.body) return before;
  const path = pathOf(place, number);
  const wanted = { title: draftTitle(title, before.draft), description: body };
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: wanted },
    done: (answer, what) => viewMergeRequest(place.api.parse(answer, MERGE_REQUEST, what)),
    async find() {
      const after = await requireRequest(place, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => hiddenWrite(place, `change merge request ${number}`),
    refused: ({ message }) =>
      refused(`merge request ${number} in ${locationOf(place)} cannot be changed: ${message}`, {
        hint: "Look at the title and the body that were asked for.",
        data: { why: "change_refused", number },
      }),
  });
}

export async function requireRequest(place: GitlabPlace, number: number): Promise<PullRequest> {
  const request = await getRequest(place, number);
  if (request !== null) return request;
  throw refused(`there is no merge request ${number} in ${locationOf(place)}`, {
    hint: "Name another number.",
    data: { why: "pull_missing", number },
  });
}

async function findMade(place: GitlabPlace, request: NewPullRequest): Promise<PullRequest | null> {
  const all = await listRequests(place, request.head);
  const made = all.find(({ description }) => hasMarker(description ?? "", request.key));
  return made === undefined ? null : await getRequest(place, made.iid);
}

/** Newest first, and only those that come from where branches are pushed to: others may have a branch of the same name. */
async function listRequests(place: GitlabPlace, head: string): Promise<readonly MergeRequest[]> {
  const query = `state=all&order_by=created_at&sort=desc&source_branch=${encodeURIComponent(head)}`;
  const path = `${projectPath(place.project)}/merge_requests?${query}`;
  const all = (await place.api.list(path, MERGE_REQUEST)) ?? (await absent(place)) ?? [];
  const named = all.filter((request) => request.source_branch === head);
  if (named.length === 0) return [];
  const id = place.head === place.project ? null : (await readProject(place, place.head)).id;
  return named.filter(({ source_project_id: source, target_project_id: target }) => source === (id ?? target));
}

async function requireNews(place: GitlabPlace, { head, base }: NewPullRequest): Promise<void> {
  const commit = await place.api.read(branchPath(place.head, head), BRANCH);
  if (commit === null) {
    await readProject(place, place.head);
    throw refused(`the branch ${head} was never pushed`, {
      hint: "Push it first, then create the merge request.",
      data: { why: "head_missing", head },
    });
  }
  if ((await place.api.read(branchPath(place.project, base), BRANCH)) === null) {
    await readProject(place);
    throw refused(`there is no branch ${base} to merge into`, {
      hint: "Name a branch that the project has.",
      data: { why: "base_missing", base },
    });
  }
  const open = (await listRequests(place, head)).find((one) => stateOf(one) === "open" && one.target_branch === base);
  if (open !== undefined) throw exists(place, viewMergeRequest(open));
  // Two projects have no comparison; a request without news is harmless there.
  if (place.head !== place.project) return;
  const range = `from=${encodeURIComponent(base)}&to=${encodeURIComponent(head)}`;
  const compared = await place.api.read(`${projectPath(place.project)}/repository/compare?${range}`, COMPARED);
  if (compared === null || compared.commits.length > 0) return;
  throw refused(`${head} has nothing that ${base} lacks`, {
    hint: "Commit and push something first.",
    data: { why: "nothing_new", head, base },
  });
}

const BRANCH = z.object({ name: z.string() });
const COMPARED = z.object({ commits: z.array(z.unknown()) });

function exists(place: GitlabPlace, { number, url, head }: PullRequest): HoldfastError {
  return refused(`merge request ${number} is open already for ${head} in ${locationOf(place)}`, {
    hint: "Use that one, or close it first.",
    data: { why: "exists", number, url },
  });
}

function refused(
  message: string,
  more: { readonly hint: string; readonly data: Readonly<Record<string, unknown>> },
): HoldfastError {
  return new HoldfastError({ code: "FORGE_REFUSED", message, ...more });
}

function branchPath(project: string, branch: string): string {
  return `${projectPath(project)}/repository/branches/${encodeURIComponent(branch)}`;
}

function pathOf(place: GitlabPlace, number: number): string {
  return `${projectPath(place.project)}/merge_requests/${number}`;
}

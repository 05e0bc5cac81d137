// GitLab issues, notes and labels, and the project they belong to.

import * as z from "zod/mini";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge, Subject } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import { type Api, writeOnce } from "./api.ts";
import { hasMarker, requireKey, requireText, subjectNumber, truncateBody, withMarker } from "./body-text.ts";

export async function readIssue(place: GitlabProject, number: number): Promise<IssueSnapshot | null> {
  const found = await place.api.read(pathOf(place, number), ISSUE);
  return found === null ? await confirmAbsent(place) : snapshotOf(found);
}

/** Searches the list of this login's issues, newest first. The list is complete and the search index is not. */
export async function findIssue(place: GitlabProject, key: string): Promise<IssueSnapshot | null> {
  requireKey(key);
  const query = "scope=created_by_me&state=all&order_by=created_at&sort=desc";
  const all =
    (await place.api.list(`${projectPath(place.project)}/issues?${query}`, ISSUE)) ??
    (await confirmAbsent(place)) ??
    [];
  const found = all.find(({ description }) => hasMarker(description ?? "", key));
  return found === undefined ? null : snapshotOf(found);
}

export async function createIssue(
  place: GitlabProject,
  issue: Parameters<Forge["createIssue"]>[0],
): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const description = truncateBody(issue.body, MAX_BODY_LENGTH, (text) => withMarker(text, issue.key));
  const there = await findIssue(place, issue.key);
  if (there !== null) return there;
  const path = `${projectPath(place.project)}/issues`;
  const body = { title: issue.title, description, labels: joinedLabels(issue.labels) };
  return await writeOnce(place.api, {
    request: { method: "POST", path, body },
    done: (made, what) => snapshotOf(place.api.parse(made, ISSUE, what)),
    find: () => findIssue(place, issue.key),
    async hidden() {
      await readProject(place);
      return writeDenied(place, "create an issue");
    },
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `no issue can be created in ${projectName(place)}: ${message}`,
        hint: "Look whether the project has issues turned on.",
        data: { why: "issue_refused" },
      }),
  });
}

const ISSUE = z.object({
  iid: z.number(),
  title: z.string(),
  description: z.nullish(z.string()),
  state: z.enum(["opened", "closed"]),
  labels: z.array(z.string()),
  updated_at: z.string(),
});

function snapshotOf(issue: z.infer<typeof ISSUE>): IssueSnapshot {
  const { iid, title, description, state, labels } = issue;
  return {
    number: iid,
    title,
    body: description ?? "",
    labels,
    state: state === "opened" ? "open" : "closed",
    updatedAt: issue.updated_at,
  };
}

function pathOf(place: GitlabProject, number: number): string {
  return `${projectPath(place.project)}/issues/${number}`;
}

export async function findComment(
  place: GitlabProject,
  on: Subject,
  key: string,
): Promise<{ readonly url: string } | null> {
  requireKey(key);
  const { name, path, url } = subjectPaths(place, on);
  const all = await place.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
  if (all === null) {
    await requireSubject(place, on);
    throw writeDenied(place, `read the comments of ${name}`);
  }
  const found = all.find(({ body }) => hasMarker(body, key));
  return found === undefined ? null : { url: `${url}#note_${found.id}` };
}

export async function addComment(
  place: GitlabProject,
  on: Subject,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = truncateBody(comment.body, MAX_BODY_LENGTH, (text) => withMarker(text, comment.key));
  const there = await findComment(place, on, comment.key);
  if (there !== null) return there;
  const { name, path, url, number } = subjectPaths(place, on);
  return await writeOnce(place.api, {
    request: { method: "POST", path: `${path}/notes`, body: { body } },
    done: (made, what) => ({ url: `${url}#note_${place.api.parse(made, NOTE, what).id}` }),
    find: () => findComment(place, on, comment.key),
    hidden: () => writeDenied(place, `comment on ${name}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `${name} in ${projectName(place)} takes no comment: ${message}`,
        hint: "Look whether its discussion is locked.",
        data: { why: "comment_refused", number },
      }),
  });
}

const NOTE = z.object({ id: z.number(), body: z.string() });

/** Equal labels are not written, because each change is an event that users see. */
export async function setLabels(place: GitlabProject, on: Subject, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const { name, path, number } = subjectPaths(place, on);
  if (sameLabels((await requireSubject(place, on)).labels, wanted)) return;
  await writeOnce(place.api, {
    request: { method: "PUT", path, body: { labels: joinedLabels(wanted) } },
    done: () => true,
    find: async () => (sameLabels((await requireSubject(place, on)).labels, wanted) ? true : null),
    hidden: () => writeDenied(place, `set labels of ${name}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `the labels of ${name} in ${projectName(place)} cannot be set: ${message}`,
        hint: "Look at the labels that were asked for.",
        data: { why: "labels", number },
      }),
  });
}

/** GitLab takes labels as one comma-separated text without an escape for a comma. */
function joinedLabels(labels: readonly string[]): string {
  const bad = labels.find((label) => label.includes(","));
  if (bad === undefined) return [...new Set(labels)].join(",");
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(bad)} cannot be a label at GitLab`,
    hint: "Use labels without commas.",
  });
}

function sameLabels(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && b.every((label) => a.includes(label));
}

/**
 * An issue or a merge request. GitLab numbers them separately and gives them separate paths with the same structure.
 */
interface GitlabSubject {
  readonly number: number;
  /** The name used in messages. */
  readonly name: string;
  readonly path: string;
  readonly url: string;
}

export function subjectPaths(place: GitlabProject, on: Subject): GitlabSubject {
  const number = subjectNumber(on);
  const [kind, name] = typeof on === "number" ? ["issues", "issue"] : ["merge_requests", "merge request"];
  return {
    number,
    name: `${name} ${number}`,
    path: `${projectPath(place.project)}/${kind}/${number}`,
    url: `${projectName(place)}/-/${kind}/${number}`,
  };
}

/** Throws FORGE_DENIED if the whole project is not visible. */
export async function requireSubject(place: GitlabProject, on: Subject): Promise<z.infer<typeof LABELLED>> {
  const { name, path, number } = subjectPaths(place, on);
  const found = await place.api.read(path, LABELLED);
  if (found !== null) return found;
  await confirmAbsent(place);
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no ${name} in ${projectName(place)}`,
    hint: "Name another number.",
    data: { why: typeof on === "number" ? "issue_missing" : "pull_missing", number },
  });
}

const LABELLED = z.object({ labels: z.array(z.string()) });

/** The project with the issues and merge requests, and the one that receives branches. They differ only for a fork. */
export interface GitlabProject {
  readonly api: Api;
  readonly host: string;
  /** Includes the groups, such as `team/tools/app`. */
  readonly project: string;
  readonly head: string;
}

export function projectPath(project: string): string {
  return `projects/${encodeURIComponent(project)}`;
}

export function projectName({ host, project }: GitlabProject): string {
  return `https://${host}/${project}`;
}

/** Throws FORGE_DENIED if the project is not visible: GitLab does not distinguish hidden from absent. */
export async function readProject(place: GitlabProject, project: string = place.project): Promise<Project> {
  const found = await place.api.read(projectPath(project), PROJECT);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitLab shows no project ${project} on ${place.host}`,
    hint: "Check the remote's URL, and that the login may see this project.",
    retry: "ask",
  });
}

/** In a visible project, an absent resource does not exist. In a hidden one this is unknown, so it throws. */
export async function confirmAbsent(place: GitlabProject): Promise<null> {
  await readProject(place);
  return null;
}

/** GitLab reports a forbidden write to a readable resource as "not found". */
export function writeDenied(place: GitlabProject, what: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitLab does not let us ${what} in ${projectName(place)}`,
    hint: "Give the login the role of a developer there, and the token the scope `api`.",
    retry: "ask",
  });
}

const PROJECT = z.object({ id: z.number(), default_branch: z.nullish(z.string()) });

type Project = z.infer<typeof PROJECT>;

/** The maximum length of descriptions and notes, in characters. */
export const MAX_BODY_LENGTH = 1_000_000;

// GitLab issues, notes and labels, and the project they belong to.

import * as z from "zod/mini";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge, Subject } from "@holdfast/core/forge";
import type { Json } from "@holdfast/core/json";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type Api, MOST_ASSIGNEES, USER_NAME, forgeRefused, writeOnce } from "./api.ts";
import { subjectNumber } from "./body-text.ts";
import type { ServerComment, ServerComments } from "./server-forge.ts";
import type { ApiRequest } from "./transport.ts";

export async function readIssue(gitlab: GitlabProject, number: number): Promise<IssueSnapshot | null> {
  const found = await gitlab.api.read(pathOf(gitlab, number), ISSUE);
  return found === null ? await confirmAbsent(gitlab) : snapshotOf(found);
}

/** Searches the list of this login's issues, newest first. The list is complete and the search index is not. */
export async function listOwnIssues(gitlab: GitlabProject): Promise<readonly IssueSnapshot[]> {
  const query = "scope=created_by_me&state=all&order_by=created_at&sort=desc";
  const all = await gitlab.api.list(`${projectPath(gitlab.project)}/issues?${query}`, ISSUE);
  return (all ?? (await confirmAbsent(gitlab)) ?? []).map(snapshotOf);
}

export function issueRequest(
  { project }: GitlabProject,
  { title, body: description, labels }: Omit<Parameters<Forge["createIssue"]>[0], "key">,
): ApiRequest {
  const body = { title, description, labels: joinedLabels(labels) };
  return { method: "POST", path: `${projectPath(project)}/issues`, body };
}

export function parseIssue({ api }: GitlabProject, made: Json | undefined, what: string): IssueSnapshot {
  return snapshotOf(api.parse(made, ISSUE, what));
}

const ISSUE = z.object({
  iid: z.number(),
  title: z.string(),
  description: z.nullish(z.string()),
  state: z.enum(["opened", "closed"]),
  labels: z.array(z.string()),
  assignees: z.nullish(z.array(z.object({ username: USER_NAME })).check(z.maxLength(MOST_ASSIGNEES))),
  updated_at: z.string(),
});

function snapshotOf(issue: z.infer<typeof ISSUE>): IssueSnapshot {
  const { iid, title, description, state, labels } = issue;
  const assignees = (issue.assignees ?? []).map(({ username }) => username);
  return {
    number: iid,
    title,
    body: description ?? "",
    labels,
    ...(assignees.length === 0 ? {} : { assignees }),
    state: state === "opened" ? "open" : "closed",
    updatedAt: issue.updated_at,
  };
}

function pathOf(gitlab: GitlabProject, number: number): string {
  return `${projectPath(gitlab.project)}/issues/${number}`;
}

/** GitLab calls them notes. */
export function commentsOf(gitlab: GitlabProject, on: Subject): ServerComments {
  const { name, path, url, number } = subjectPaths(gitlab, on);
  const toComment = ({ id, body, author, created_at, system }: z.infer<typeof NOTE>): ServerComment => ({
    id,
    url: `${url}#note_${id}`,
    author: author?.username ?? "unknown",
    body,
    at: created_at ?? null,
    isSystem: system === true,
  });
  return {
    number,
    subject: name,
    path: `${path}/notes`,
    pathOf: (id) => `${path}/notes/${id}`,
    async list() {
      const all = await gitlab.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
      if (all !== null) return all.map(toComment);
      await requireSubject(gitlab, on);
      throw writeDenied(gitlab, `read the comments of ${name}`);
    },
    parse: (made, what) => toComment(gitlab.api.parse(made, NOTE, what)),
  };
}

const NOTE = z.object({
  id: z.int(),
  body: z.string(),
  author: z.nullish(z.object({ username: z.string() })),
  /** GitLab's own note about a change of the issue. */
  system: z.nullish(z.boolean()),
  created_at: z.nullish(z.string()),
});

/** Equal labels are not written, because each change is an event that users see. */
export async function setLabels(gitlab: GitlabProject, on: Subject, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const { name, path, number } = subjectPaths(gitlab, on);
  if (sameLabels((await requireSubject(gitlab, on)).labels, wanted)) return;
  await writeOnce(gitlab.api, {
    request: { method: "PUT", path, body: { labels: joinedLabels(wanted) } },
    done: () => true,
    find: async () => (sameLabels((await requireSubject(gitlab, on)).labels, wanted) ? true : null),
    hidden: () => writeDenied(gitlab, `set labels of ${name}`),
    refused: ({ message }) =>
      forgeRefused(
        `the labels of ${name} in ${projectName(gitlab)} cannot be set: ${message}`,
        "Check the requested labels.",
        { why: "labels", number },
      ),
  });
}

/** GitLab takes labels as one comma-separated text without an escape for a comma. */
function joinedLabels(labels: readonly string[]): string {
  const bad = labels.find((label) => label.includes(","));
  if (bad === undefined) return labels.join(",");
  throw usageError(`${JSON.stringify(bad)} cannot be a label at GitLab`, "Use labels without commas.");
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

export function subjectPaths(gitlab: GitlabProject, on: Subject): GitlabSubject {
  const number = subjectNumber(on);
  const [kind, name] = typeof on === "number" ? ["issues", "issue"] : ["merge_requests", "merge request"];
  return {
    number,
    name: `${name} ${number}`,
    path: `${projectPath(gitlab.project)}/${kind}/${number}`,
    url: `${projectName(gitlab)}/-/${kind}/${number}`,
  };
}

/** Throws FORGE_DENIED if the whole project is not visible. */
export async function requireSubject(gitlab: GitlabProject, on: Subject): Promise<z.infer<typeof LABELLED>> {
  const { name, path, number } = subjectPaths(gitlab, on);
  const found = await gitlab.api.read(path, LABELLED);
  if (found !== null) return found;
  await confirmAbsent(gitlab);
  const why = typeof on === "number" ? "issue_missing" : "pull_missing";
  throw forgeRefused(`${name} does not exist in ${projectName(gitlab)}`, "Give another number.", { why, number });
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
export async function readProject(gitlab: GitlabProject, project: string = gitlab.project): Promise<Project> {
  const found = await gitlab.api.read(projectPath(project), PROJECT);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `project ${project} is not visible on ${gitlab.host}`,
    hint: "Check the remote's URL, and that the login may see this project.",
    retry: "ask",
  });
}

/** In a visible project, an absent resource does not exist. In a hidden one this is unknown, so it throws. */
export async function confirmAbsent(gitlab: GitlabProject): Promise<null> {
  await readProject(gitlab);
  return null;
}

/** GitLab reports a forbidden write to a readable resource as "not found". */
export function writeDenied(gitlab: GitlabProject, what: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitLab denied permission to ${what} in ${projectName(gitlab)}`,
    hint: "Give the login the role of a developer there, and the token the scope `api`.",
    retry: "ask",
  });
}

const PROJECT = z.object({ id: z.number(), default_branch: z.nullish(z.string()) });

type Project = z.infer<typeof PROJECT>;

/** The maximum length of descriptions and notes, in characters. */
export const MAX_BODY_LENGTH = 1_000_000;

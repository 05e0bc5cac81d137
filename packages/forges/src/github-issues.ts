// GitHub issues, comments and labels, and the repository they belong to.

import * as z from "zod/mini";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Json } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { type Api, MOST_ASSIGNEES, USER_NAME, forgeRefused, writeOnce } from "./api.ts";
import type { ServerComment, ServerComments } from "./server-forge.ts";

export async function readIssue(github: GithubRepository, number: number): Promise<IssueSnapshot | null> {
  const found = await github.api.read(`${repositoryPath(github)}/issues/${number}`, ISSUE);
  if (found === null) return await confirmAbsent(github);
  if (found.pull_request !== undefined) return null;
  return (await hasMovedAway(github, found)) ? null : snapshotOf(found);
}

/**
 * Searches the complete list, newest first. The search index lags behind and would miss an issue created a moment ago.
 * If GitHub reports our login, only our own issues are listed, because a large repository has too many.
 */
export async function listOwnIssues(github: GithubRepository): Promise<readonly IssueSnapshot[]> {
  const login = await github.login();
  const creator = login === null ? "" : `&creator=${encodeURIComponent(login)}`;
  const path = `${repositoryPath(github)}/issues?state=all&sort=created&direction=desc${creator}`;
  const all = (await github.api.list(path, ISSUE)) ?? (await confirmAbsent(github)) ?? [];
  return all.filter(({ pull_request }) => pull_request === undefined).map(snapshotOf);
}

export function parseIssue({ api }: GithubRepository, made: Json | undefined, what: string): IssueSnapshot {
  return snapshotOf(api.parse(made, ISSUE, what));
}

/** Equal labels are not written, because each change is an event that users see. GitHub labels are case-insensitive. */
export async function setLabels(github: GithubRepository, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const found = await github.api.read(`${repositoryPath(github)}/issues/${number}`, ISSUE);
  if (found === null) throw await subjectNotFound(github, number);
  if (sameLabels(found.labels.map(nameOf), wanted)) return;
  const path = `${repositoryPath(github)}/issues/${number}/labels`;
  await writeOnce(github.api, {
    request: { method: "PUT", path, body: { labels: wanted } },
    done: () => true,
    async find() {
      const after = await github.api.read(`${repositoryPath(github)}/issues/${number}`, ISSUE);
      return after !== null && sameLabels(after.labels.map(nameOf), wanted) ? true : null;
    },
    hidden: () => writeDenied(github, `set labels of ${number}`),
    refused: ({ message }) =>
      forgeRefused(
        `the labels of ${number} in ${repositoryName(github)} cannot be set: ${message}`,
        "Check the requested labels.",
        { why: "labels", number },
      ),
  });
}

/** Throws FORGE_DENIED if the whole repository is not visible. */
async function subjectNotFound(github: GithubRepository, number: number): Promise<HoldfastError> {
  await readRepository(github);
  const message = `issue or pull request ${number} does not exist in ${repositoryName(github)}`;
  return forgeRefused(message, "Give another number.", { why: "issue_missing", number });
}

/** GitHub reports a forbidden write to a readable resource as "not found". */
export function writeDenied(github: GithubRepository, what: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitHub denied permission to ${what} in ${repositoryName(github)}`,
    hint: "Give the login the right to write issues and pull requests there.",
    retry: "ask",
  });
}

const LABEL = z.union([z.string(), z.object({ name: z.string() })]);
const ISSUE = z.object({
  number: z.number(),
  title: z.string(),
  body: z.nullish(z.string()),
  state: z.enum(["open", "closed"]),
  labels: z.array(LABEL),
  assignees: z.nullish(z.array(z.object({ login: USER_NAME })).check(z.maxLength(MOST_ASSIGNEES))),
  updated_at: z.string(),
  repository_url: z.string(),
  // This API lists pull requests as issues too.
  pull_request: z.optional(z.unknown()),
});

function snapshotOf(issue: z.infer<typeof ISSUE>): IssueSnapshot {
  const { number, title, body, state, labels } = issue;
  const assignees = (issue.assignees ?? []).map(({ login }) => login);
  return {
    number,
    title,
    body: body ?? "",
    state,
    labels: labels.map(nameOf),
    ...(assignees.length === 0 ? {} : { assignees }),
    updatedAt: issue.updated_at,
  };
}

/** A transferred issue still answers at its old address, with the repository and number of its new repository. */
async function hasMovedAway(github: GithubRepository, issue: z.infer<typeof ISSUE>): Promise<boolean> {
  const named = (name: string): boolean => issue.repository_url.toLowerCase().endsWith(`/${name.toLowerCase()}`);
  if (named(`${github.owner}/${github.name}`)) return false;
  // The repository itself may have been renamed.
  return !named((await readRepository(github)).full_name);
}

function nameOf(label: z.infer<typeof LABEL>): string {
  return typeof label === "string" ? label : label.name;
}

function sameLabels(a: readonly string[], b: readonly string[]): boolean {
  const known = new Set(a.map((label) => label.toLowerCase()));
  return known.size === b.length && b.every((label) => known.has(label.toLowerCase()));
}

export function commentsOf(github: GithubRepository, number: number): ServerComments {
  const path = `${repositoryPath(github)}/issues/${number}/comments`;
  return {
    number,
    subject: String(number),
    path,
    pathOf: (id) => `${repositoryPath(github)}/issues/comments/${id}`,
    async list() {
      const all = await github.api.list(path, COMMENT);
      if (all === null) throw await subjectNotFound(github, number);
      return all.map(toComment);
    },
    parse: (made, what) => toComment(github.api.parse(made, COMMENT, what)),
  };
}

const COMMENT = z.object({
  id: z.int(),
  body: z.nullish(z.string()),
  html_url: z.string(),
  // null: the account was deleted.
  user: z.nullish(z.object({ login: z.string() })),
  created_at: z.nullish(z.string()),
});

function toComment({ id, body, html_url, user, created_at }: z.infer<typeof COMMENT>): ServerComment {
  return { id, url: html_url, author: user?.login ?? "ghost", body: body ?? "", at: created_at ?? null };
}

/**
 * The repository with the issues and pull requests, and the one that receives branches. They differ only for a fork.
 */
export interface GithubRepository {
  readonly api: Api;
  readonly host: string;
  readonly owner: string;
  readonly name: string;
  readonly head: { readonly owner: string; readonly name: string };
  /** The user of the login; null if the login has no user. */
  login(): Promise<string | null>;
}

export function repositoryPath({ owner, name }: GithubRepository): string {
  return `repos/${owner}/${name}`;
}

export function repositoryName({ host, owner, name }: GithubRepository): string {
  return `https://${host}/${owner}/${name}`;
}

/** Throws FORGE_DENIED if the repository is not visible: GitHub does not distinguish hidden from absent. */
export async function readRepository(
  github: GithubRepository,
  seen?: (headers: ReadonlyMap<string, string>) => void,
): Promise<Repository> {
  const found = await github.api.read(repositoryPath(github), REPOSITORY, seen);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `repository ${github.owner}/${github.name} is not visible on ${github.host}`,
    hint: "Check the remote's URL, and that the login may see this repository.",
    retry: "ask",
  });
}

/**
 * Throws FORGE_DENIED if the login cannot open a pull request. Only a classic token reports its scopes. The right to
 * push is not needed where the branch goes to a fork.
 */
export async function checkAccess(github: GithubRepository): Promise<void> {
  let listed: string | undefined;
  const found = await readRepository(github, (headers) => (listed = headers.get("x-oauth-scopes")));
  const scopes = listed === undefined || listed.trim() === "" ? null : listed.split(",").map((scope) => scope.trim());
  const enough = found.private === false ? ["repo", "public_repo"] : ["repo"];
  if (scopes !== null && !enough.some((scope) => scopes.includes(scope)))
    throw new HoldfastError({
      code: "FORGE_DENIED",
      message: `The login for ${github.host} lacks the scope repo, which a pull request in ${repositoryName(github)} needs`,
      hint: `Add it: \`gh auth refresh --hostname ${github.host} --scopes repo\`, or use a token with that scope.`,
      retry: "ask",
    });
  const { head, owner, name } = github;
  const isFork = head.owner !== owner || head.name !== name;
  if (found.permissions?.push !== false || isFork) return;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `The login for ${github.host} may not push to ${repositoryName(github)}`,
    hint: "Ask for the right to write, or work in a fork: `gh repo fork --remote`.",
    retry: "ask",
  });
}

/** In a visible repository, an absent resource does not exist. In a hidden one this is unknown, so it throws. */
export async function confirmAbsent(github: GithubRepository): Promise<null> {
  await readRepository(github);
  return null;
}

const REPOSITORY = z.object({
  full_name: z.string(),
  default_branch: z.string(),
  // GitHub reports these only to users with push access.
  allow_merge_commit: z.optional(z.boolean()),
  allow_squash_merge: z.optional(z.boolean()),
  private: z.optional(z.boolean()),
  permissions: z.optional(z.object({ push: z.optional(z.boolean()) })),
});

type Repository = z.infer<typeof REPOSITORY>;

/** The maximum length of issue, comment and pull request bodies, in characters. */
export const MAX_BODY_LENGTH = 65_536;

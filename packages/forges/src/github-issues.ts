import * as z from "zod/mini";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import { type Api, writeOnce } from "./api.ts";
import { hasMarker, requireKey, requireText, truncateBody, withMarker } from "./body-text.ts";

export async function readIssue(place: GithubRepository, number: number): Promise<IssueSnapshot | null> {
  const found = await place.api.read(`${repositoryPath(place)}/issues/${number}`, ISSUE);
  if (found === null) return await confirmAbsent(place);
  if (found.pull_request !== undefined) return null;
  return (await hasMovedAway(place, found)) ? null : snapshotOf(found);
}

/**
 * Through the list, newest first, which is complete; the search index lags behind, and would say "none" of one that was made a
 * moment ago. Ours alone where GitHub tells who we are: a large repository has too many.
 */
export async function findIssue(place: GithubRepository, key: string): Promise<IssueSnapshot | null> {
  requireKey(key);
  const login = await place.login();
  const creator = login === null ? "" : `&creator=${encodeURIComponent(login)}`;
  const path = `${repositoryPath(place)}/issues?state=all&sort=created&direction=desc${creator}`;
  const all = (await place.api.list(path, ISSUE)) ?? (await confirmAbsent(place)) ?? [];
  const found = all.find(({ body, pull_request }) => pull_request === undefined && hasMarker(body ?? "", key));
  return found === undefined ? null : snapshotOf(found);
}

export async function createIssue(
  place: GithubRepository,
  issue: Parameters<Forge["createIssue"]>[0],
): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const body = truncateBody(issue.body, MAX_BODY_LENGTH, (text) => withMarker(text, issue.key));
  const there = await findIssue(place, issue.key);
  if (there !== null) return there;
  const path = `${repositoryPath(place)}/issues`;
  const labels = [...new Set(issue.labels)];
  return await writeOnce(place.api, {
    request: { method: "POST", path, body: { title: issue.title, body, labels } },
    done: (made, what) => snapshotOf(place.api.parse(made, ISSUE, what)),
    find: () => findIssue(place, issue.key),
    async hidden() {
      await readRepository(place);
      return refusedIssues(place, "it takes no issues");
    },
    refused: ({ message }) => refusedIssues(place, message),
  });
}

/** Equal labels are left alone: each change is an event that people see. GitHub does not tell upper from lower case. */
export async function setLabels(place: GithubRepository, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const found = await place.api.read(`${repositoryPath(place)}/issues/${number}`, ISSUE);
  if (found === null) throw await missingSubject(place, number);
  if (sameLabels(found.labels.map(nameOf), wanted)) return;
  const path = `${repositoryPath(place)}/issues/${number}/labels`;
  await writeOnce(place.api, {
    request: { method: "PUT", path, body: { labels: wanted } },
    done: () => true,
    async find() {
      const after = await place.api.read(`${repositoryPath(place)}/issues/${number}`, ISSUE);
      return after !== null && sameLabels(after.labels.map(nameOf), wanted) ? true : null;
    },
    hidden: () => writeDenied(place, `set labels of ${number}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `the labels of ${number} in ${repositoryName(place)} cannot be set: ${message}`,
        hint: "Look at the labels that were asked for.",
        data: { why: "labels", number },
      }),
  });
}

/** Throws FORGE_DENIED when the whole repository cannot be seen. */
async function missingSubject(place: GithubRepository, number: number): Promise<HoldfastError> {
  await readRepository(place);
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no issue or pull request ${number} in ${repositoryName(place)}`,
    hint: "Name another number.",
    data: { why: "issue_missing", number },
  });
}

/** A thing that can be read, and of which a write says that it is not there: that is how GitHub says "you may not". */
export function writeDenied(place: GithubRepository, what: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitHub does not let us ${what} in ${repositoryName(place)}`,
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
  updated_at: z.string(),
  repository_url: z.string(),
  // Pull requests are issues, too, for this API.
  pull_request: z.optional(z.unknown()),
});

function snapshotOf(issue: z.infer<typeof ISSUE>): IssueSnapshot {
  const { number, title, body, state, labels } = issue;
  return { number, title, body: body ?? "", state, labels: labels.map(nameOf), updatedAt: issue.updated_at };
}

/** One that was transferred answers under its old address from another repository, with a number of that one. */
async function hasMovedAway(place: GithubRepository, issue: z.infer<typeof ISSUE>): Promise<boolean> {
  const named = (name: string): boolean => issue.repository_url.toLowerCase().endsWith(`/${name.toLowerCase()}`);
  if (named(`${place.owner}/${place.name}`)) return false;
  // The repository itself may have another name now.
  return !named((await readRepository(place)).full_name);
}

function nameOf(label: z.infer<typeof LABEL>): string {
  return typeof label === "string" ? label : label.name;
}

function sameLabels(a: readonly string[], b: readonly string[]): boolean {
  const known = new Set(a.map((label) => label.toLowerCase()));
  return known.size === b.length && b.every((label) => known.has(label.toLowerCase()));
}

function refusedIssues(place: GithubRepository, why: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `no issue can be created in ${repositoryName(place)}: ${why}`,
    hint: "Look whether the repository has issues turned on.",
    data: { why: "issue_refused" },
  });
}

export async function findComment(
  place: GithubRepository,
  number: number,
  key: string,
): Promise<{ readonly url: string } | null> {
  requireKey(key);
  const all = await place.api.list(pathOf(place, number), COMMENT);
  if (all === null) throw await missingSubject(place, number);
  const found = all.find(({ body }) => hasMarker(body ?? "", key));
  return found === undefined ? null : { url: found.html_url };
}

export async function addComment(
  place: GithubRepository,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = truncateBody(comment.body, MAX_BODY_LENGTH, (text) => withMarker(text, comment.key));
  const there = await findComment(place, number, comment.key);
  if (there !== null) return there;
  const path = pathOf(place, number);
  return await writeOnce(place.api, {
    request: { method: "POST", path, body: { body } },
    done: (made, what) => ({ url: place.api.parse(made, COMMENT, what).html_url }),
    find: () => findComment(place, number, comment.key),
    hidden: () => writeDenied(place, `comment on ${number}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `${number} in ${repositoryName(place)} takes no comment: ${message}`,
        hint: "Look whether its conversation is locked.",
        data: { why: "comment_refused", number },
      }),
  });
}

const COMMENT = z.object({ body: z.nullish(z.string()), html_url: z.string() });

function pathOf(place: GithubRepository, number: number): string {
  return `${repositoryPath(place)}/issues/${number}/comments`;
}

/** The repository in which issues and pull requests live, and the one that branches are pushed to: the same one unless that is a fork. */
export interface GithubRepository {
  readonly api: Api;
  readonly host: string;
  readonly owner: string;
  readonly name: string;
  readonly head: { readonly owner: string; readonly name: string };
  /** Whose login it is; null where it is nobody's. */
  login(): Promise<string | null>;
}

export function repositoryPath({ owner, name }: GithubRepository): string {
  return `repos/${owner}/${name}`;
}

export function repositoryName({ host, owner, name }: GithubRepository): string {
  return `https://${host}/${owner}/${name}`;
}

/** FORGE_DENIED when it cannot be seen: GitHub does not tell a repository that is hidden from one that is not there. */
export async function readRepository(place: GithubRepository): Promise<Repository> {
  const found = await place.api.read(repositoryPath(place), REPOSITORY);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitHub shows no repository ${place.owner}/${place.name} on ${place.host}`,
    hint: "Check the remote's URL, and that the login may see this repository.",
    retry: "ask",
  });
}

/** What is absent in a repository that can be seen is not there; in one that cannot be seen, nobody knows. */
export async function confirmAbsent(place: GithubRepository): Promise<null> {
  await readRepository(place);
  return null;
}

const REPOSITORY = z.object({
  full_name: z.string(),
  default_branch: z.string(),
  // Told only to those who may push.
  allow_merge_commit: z.optional(z.boolean()),
  allow_squash_merge: z.optional(z.boolean()),
});

type Repository = z.infer<typeof REPOSITORY>;

/** Of bodies of issues, comments and pull requests, in characters. */
export const MAX_BODY_LENGTH = 65_536;

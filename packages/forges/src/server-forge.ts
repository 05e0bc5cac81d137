// The forge operations that are the same for every forge with a server. Issues, comments and pull requests are found by
// their marker and written once.

import type { IssueComment, IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge, NewPullRequest, PullRequest, Subject } from "@holdfast/core/forge";
import type { Json } from "@holdfast/core/json";
import type { HoldfastError } from "@holdfast/platform/error";
import { type Api, type ClassifiedResponse, forgeRefused, writeOnce } from "./api.ts";
import {
  hasAnyMarker,
  hasMarker,
  keepMarkers,
  requireKey,
  requireNumber,
  requireText,
  subjectNumber,
  truncateBody,
  withMarker,
} from "./body-text.ts";

/** One repository on a server: what differs between forges. */
export interface ForgeServer {
  readonly api: Api;
  /** The URL of the repository. */
  readonly location: string;
  /** The forge's words in messages: "repository" and "pull request", or "project" and "merge request". */
  readonly place: string;
  readonly noun: string;
  /** The maximum length of bodies, in characters. */
  readonly maxBodyLength: number;
  /** Throws FORGE_DENIED if the repository is not visible. */
  requireVisible(): Promise<unknown>;
  denied(what: string): HoldfastError;

  /** The issues of this login, newest first. */
  ownIssues(): Promise<readonly IssueSnapshot[]>;
  createIssue(issue: Omit<Parameters<Forge["createIssue"]>[0], "key">): WriteRequest;
  parseIssue(body: Json | undefined, what: string): IssueSnapshot;
  /** The error for a visible repository in which no issue can be created. */
  issuesHidden(): HoldfastError;
  commentsOf(on: Subject): ServerComments;

  getPull(number: number): Promise<PullRequest | null>;
  /** The pull requests of a branch, newest first. Whether they can be merged is unknown. */
  pullsOf(head: string): Promise<readonly PullRequest[]>;
  parsePull(body: Json | undefined, what: string): PullRequest;
  createPull(request: NewPullRequest): WriteRequest | Promise<WriteRequest>;
  /** Handles a refused creation. The pull request may exist because another call was faster. */
  createRefused(request: NewPullRequest, refusal: Refusal): Promise<PullRequest | HoldfastError>;
  updatePull(number: number, wanted: Pick<PullRequest, "title" | "body" | "draft">): WriteRequest;
  closePull(number: number): WriteRequest;
  mergePull(number: number, head: string): WriteRequest | Promise<WriteRequest>;
}

type WriteRequest = Parameters<Api["write"]>[0];
type Refusal = Extract<ClassifiedResponse, { kind: "refused" }>;

type OwnParts = "name" | "lateMs" | "marked" | "getIssue" | "setLabels" | "defaultBranch" | "checks" | "reviews";

/** The forge of a server. Numbers are checked before any request. */
export function createServerForge(
  server: ForgeServer,
  own: Pick<Forge, OwnParts> & { checkAccess(): Promise<void> },
): Forge {
  const numbered = async <T>(number: number, work: () => Promise<T>): Promise<T> => {
    requireNumber(number);
    return await work();
  };
  const subject = <T>(on: Subject, work: () => Promise<T>): Promise<T> => numbered(subjectNumber(on), work);
  return {
    ...own,
    location: server.location,
    getIssue: (number) => numbered(number, () => own.getIssue(number)),
    issueComments: (number) => numbered(number, () => readComments(server.commentsOf(number))),
    createIssue: (issue) => createIssue(server, issue),
    findIssue: (key) => findIssue(server, key),
    setLabels: (on, labels) => subject(on, () => own.setLabels(on, labels)),
    findComment: (on, key) => subject(on, () => findComment(server.commentsOf(on), key)),
    comment: (on, comment) => subject(on, () => addComment(server, on, comment)),
    deleteComment: (on, key) => subject(on, () => deleteComment(server, on, key)),
    findPullRequest: (branch) => findPull(server, branch),
    getPullRequest: (number) => numbered(number, () => server.getPull(number)),
    createPullRequest: (request) => createPull(server, request),
    updatePullRequest: (number, change) => numbered(number, () => updatePull(server, number, change)),
    closePullRequest: (number) => numbered(number, () => closePull(server, number)),
    mergePullRequest: (number, { head }) => numbered(number, () => mergePull(server, number, head)),
    reviews: (number) => numbered(number, () => own.reviews(number)),
  };
}

async function findIssue(server: ForgeServer, key: string): Promise<IssueSnapshot | null> {
  requireKey(key);
  return (await server.ownIssues()).find(({ body }) => hasMarker(body, key)) ?? null;
}

async function createIssue(server: ForgeServer, issue: Parameters<Forge["createIssue"]>[0]): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const body = truncateBody(issue.body, server.maxBodyLength, (text) => withMarker(text, issue.key));
  const there = await findIssue(server, issue.key);
  if (there !== null) return there;
  return await writeOnce(server.api, {
    request: server.createIssue({ title: issue.title, body, labels: [...new Set(issue.labels)] }),
    done: server.parseIssue,
    find: () => findIssue(server, issue.key),
    async hidden() {
      await server.requireVisible();
      return server.issuesHidden();
    },
    refused: ({ message }) => issuesRefused(server, message),
  });
}

export function issuesRefused({ location, place }: ForgeServer, why: string): HoldfastError {
  const message = `an issue cannot be created in ${location}: ${why}`;
  return forgeRefused(message, `Check that issues are enabled for the ${place}.`, { why: "issue_refused" });
}

/** The newest pull request of a branch; an open one comes first. */
export async function findPull(server: ForgeServer, head: string): Promise<PullRequest | null> {
  const all = await server.pullsOf(head);
  const found = all.find(({ state }) => state === "open") ?? all[0];
  // Only a request for the single pull request reports whether it can be merged.
  return found === undefined ? null : await server.getPull(found.number);
}

/** The pull request that was created with this key. */
export async function findMade(
  server: ForgeServer,
  { head, key }: Pick<NewPullRequest, "head" | "key">,
): Promise<PullRequest | null> {
  const made = (await server.pullsOf(head)).find(({ body }) => hasMarker(body, key));
  return made === undefined ? null : await server.getPull(made.number);
}

async function createPull(server: ForgeServer, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const body = truncateBody(request.body, server.maxBodyLength, (text) => withMarker(text, request.key));
  const made = await findMade(server, request);
  if (made !== null) return made;
  return await writeOnce(server.api, {
    request: await server.createPull({ ...request, body }),
    done: server.parsePull,
    find: () => findMade(server, request),
    async hidden() {
      await server.requireVisible();
      return server.denied(`create a ${server.noun}`);
    },
    refused: (refusal) => server.createRefused(request, refusal),
  });
}

export async function requirePull(server: ForgeServer, number: number): Promise<PullRequest> {
  const pull = await server.getPull(number);
  if (pull !== null) return pull;
  const message = `${server.noun} ${number} does not exist in ${server.location}`;
  throw forgeRefused(message, "Give another number.", { why: "pull_missing", number });
}

/** Equal fields are not written, because each change is an event that users see. */
async function updatePull(
  server: ForgeServer,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  const before = await requirePull(server, number);
  const title = change.title ?? before.title;
  const body =
    change.body === undefined
      ? before.body
      : truncateBody(change.body, server.maxBodyLength, (text) => keepMarkers(text, before.body));
  if (title === before.title && body === before.body) return before;
  return await writeOnce(server.api, {
    request: server.updatePull(number, { title, body, draft: before.draft }),
    done: server.parsePull,
    async find() {
      const after = await requirePull(server, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => server.denied(`change ${server.noun} ${number}`),
    refused: ({ message }) =>
      forgeRefused(
        `${server.noun} ${number} in ${server.location} cannot be changed: ${message}`,
        "Check the requested title and body.",
        { why: "change_refused", number },
      ),
  });
}

/** A pull request that is closed already counts as success. */
async function closePull(server: ForgeServer, number: number): Promise<PullRequest> {
  const before = await requirePull(server, number);
  if (before.state === "closed") return before;
  const cannot = (why: string, message: string): HoldfastError =>
    forgeRefused(
      `${server.noun} ${number} in ${server.location} cannot be closed: ${message}`,
      `Check the ${server.noun}; nothing was changed.`,
      { why, number },
    );
  if (before.state === "merged") throw cannot("merged", "it is merged");
  return await writeOnce(server.api, {
    request: server.closePull(number),
    // It may have been merged a moment before.
    async done() {
      const after = await requirePull(server, number);
      if (after.state === "closed") return after;
      throw cannot(after.state, `it is ${after.state}`);
    },
    async find() {
      const after = await server.getPull(number);
      return after?.state === "closed" ? after : null;
    },
    hidden: () => server.denied(`close ${server.noun} ${number}`),
    async refused({ message }) {
      const after = await requirePull(server, number);
      return after.state === "closed" ? after : cannot(after.state === "merged" ? "merged" : "refused", message);
    },
  });
}

/** The server merges only while the head is the given commit. A pull request that is merged already counts as success. */
async function mergePull(server: ForgeServer, number: number, head: string): Promise<PullRequest> {
  const cannot = (why: string, message: string): HoldfastError =>
    forgeRefused(
      `${server.noun} ${number} in ${server.location} cannot be merged: ${message}`,
      `Check the ${server.noun}; nothing was merged.`,
      { why, number },
    );
  const pull = await requirePull(server, number);
  if (pull.state === "merged") return pull;
  if (pull.state === "closed") throw cannot("closed", "it is closed");
  if (pull.headCommit !== head) throw cannot("head_moved", `${pull.head} is at ${pull.headCommit}, not at ${head}`);
  if (pull.draft) throw cannot("draft", "it is a draft");
  return await writeOnce(server.api, {
    request: await server.mergePull(number, head),
    done: () => requirePull(server, number),
    async find() {
      const after = await server.getPull(number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => server.denied(`merge ${server.noun} ${number}`),
    async refused({ status, message }) {
      const after = await requirePull(server, number);
      // Another merge was faster.
      if (after.state === "merged") return after;
      const { mergeability } = after;
      const isOther = mergeability === "mergeable" || mergeability === "unknown";
      return cannot(status === 409 ? "head_moved" : isOther ? "refused" : mergeability, message);
    },
  });
}

/** The comments on one issue or pull request. */
export interface ServerComments {
  readonly number: number;
  /** The issue or pull request in messages, such as `issue 7`. */
  readonly subject: string;
  /** Where a comment is created. */
  readonly path: string;
  pathOf(id: number): string;
  /** All of them, oldest first. Throws if the issue or pull request does not exist. */
  list(): Promise<readonly ServerComment[]>;
  /** Reads the answer to a comment that was created. */
  parse(made: unknown, what: string): ServerComment;
}

export interface ServerComment extends IssueComment {
  readonly id: number;
  readonly url: string;
  /** The forge wrote it itself, about a change of the issue. */
  readonly isSystem?: boolean;
}

async function findOwn({ list }: ServerComments, key: string): Promise<ServerComment | null> {
  requireKey(key);
  return (await list()).find(({ body }) => hasMarker(body, key)) ?? null;
}

async function findComment(comments: ServerComments, key: string): Promise<{ readonly url: string } | null> {
  const found = await findOwn(comments, key);
  return found === null ? null : { url: found.url };
}

/** What users wrote. */
async function readComments({ list }: ServerComments): Promise<readonly IssueComment[]> {
  return (await list())
    .filter(({ body, isSystem }) => isSystem !== true && !hasAnyMarker(body))
    .map(({ author, body, at }) => ({ author, body, at }));
}

async function addComment(
  server: ForgeServer,
  on: Subject,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const comments = server.commentsOf(on);
  const body = truncateBody(comment.body, server.maxBodyLength, (text) => withMarker(text, comment.key));
  const there = await findComment(comments, comment.key);
  if (there !== null) return there;
  return await writeOnce(server.api, {
    request: { method: "POST", path: comments.path, body: { body } },
    done: (made, what) => ({ url: comments.parse(made, what).url }),
    find: () => findComment(comments, comment.key),
    hidden: () => server.denied(`comment on ${comments.subject}`),
    refused: ({ message }) =>
      commentRefused(server, comments, {
        why: `created: ${message}`,
        hint: "Check whether the conversation is locked.",
      }),
  });
}

async function deleteComment(server: ForgeServer, on: Subject, key: string): Promise<void> {
  const comments = server.commentsOf(on);
  const found = await findOwn(comments, key);
  if (found === null) return;
  await writeOnce(server.api, {
    request: { method: "DELETE", path: comments.pathOf(found.id) },
    done: () => true,
    find: async () => ((await findOwn(comments, key))?.id === found.id ? null : true),
    hidden: () => server.denied(`delete a comment on ${comments.subject}`),
    refused: ({ message }) =>
      commentRefused(server, comments, { why: `deleted: ${message}`, hint: "Delete it by hand." }),
  });
}

function commentRefused(
  { location }: ForgeServer,
  { subject, number }: ServerComments,
  { why, hint }: { readonly why: string; readonly hint: string },
): HoldfastError {
  const message = `a comment on ${subject} in ${location} cannot be ${why}`;
  return forgeRefused(message, hint, { why: "comment_refused", number });
}

// Comments on an issue or a pull request of a forge with a server: found by their marker, created once, deleted once.

import type { IssueComment } from "@holdfast/core/checkpoint";
import type { HoldfastError } from "@holdfast/platform/error";
import { type Api, forgeRefused, writeOnce } from "./api.ts";
import { hasAnyMarker, hasMarker, requireKey, truncateBody, withMarker } from "./body-text.ts";

/** The comments on one issue or pull request, and what differs between forges. */
export interface ServerComments {
  readonly api: Api;
  readonly number: number;
  /** The issue or pull request in messages, such as `issue 7`. */
  readonly subject: string;
  /** The repository in messages. */
  readonly location: string;
  readonly maxLength: number;
  /** Where a comment is created. */
  readonly path: string;
  pathOf(id: number): string;
  /** All of them, oldest first. Throws if the issue or pull request does not exist. */
  list(): Promise<readonly ServerComment[]>;
  /** Reads the answer to a comment that was created. */
  parse(made: unknown, what: string): ServerComment;
  denied(what: string): HoldfastError;
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

export async function findServerComment(
  comments: ServerComments,
  key: string,
): Promise<{ readonly url: string } | null> {
  const found = await findOwn(comments, key);
  return found === null ? null : { url: found.url };
}

/** What users wrote. */
export async function readServerComments({ list }: ServerComments): Promise<readonly IssueComment[]> {
  return (await list())
    .filter(({ body, isSystem }) => isSystem !== true && !hasAnyMarker(body))
    .map(({ author, body, at }) => ({ author, body, at }));
}

export async function addServerComment(
  comments: ServerComments,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const { api, subject, path } = comments;
  const body = truncateBody(comment.body, comments.maxLength, (text) => withMarker(text, comment.key));
  const there = await findServerComment(comments, comment.key);
  if (there !== null) return there;
  return await writeOnce(api, {
    request: { method: "POST", path, body: { body } },
    done: (made, what) => ({ url: comments.parse(made, what).url }),
    find: () => findServerComment(comments, comment.key),
    hidden: () => comments.denied(`comment on ${subject}`),
    refused: ({ message }) => refused(comments, `created: ${message}`, "Check whether the conversation is locked."),
  });
}

export async function deleteServerComment(comments: ServerComments, key: string): Promise<void> {
  const { api, subject } = comments;
  const found = await findOwn(comments, key);
  if (found === null) return;
  await writeOnce(api, {
    request: { method: "DELETE", path: comments.pathOf(found.id) },
    done: () => true,
    find: async () => ((await findOwn(comments, key))?.id === found.id ? null : true),
    hidden: () => comments.denied(`delete a comment on ${subject}`),
    refused: ({ message }) => refused(comments, `deleted: ${message}`, "Delete it by hand."),
  });
}

function refused({ subject, location, number }: ServerComments, why: string, hint: string): HoldfastError {
  const message = `a comment on ${subject} in ${location} cannot be ${why}`;
  return forgeRefused(message, hint, { why: "comment_refused", number });
}

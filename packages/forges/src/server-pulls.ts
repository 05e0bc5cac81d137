// Updates, merges and closing of pull requests, the same for every forge with a server.

import type { PullRequest } from "@holdfast/core/forge";
import type { Json } from "@holdfast/core/json";
import type { HoldfastError } from "@holdfast/platform/error";
import { type Api, forgeRefused, writeOnce } from "./api.ts";
import { keepMarkers, requireText, truncateBody } from "./body-text.ts";

/** The pull requests of one repository on a server. */
export interface ServerPulls {
  readonly api: Api;
  /** The forge's word in messages: "pull request" or "merge request". */
  readonly noun: string;
  /** The URL of the repository. */
  readonly location: string;
  readonly maxBodyLength: number;
  get(number: number): Promise<PullRequest | null>;
  parse(body: Json | undefined, what: string): PullRequest;
  denied(what: string): HoldfastError;
}

type WriteRequest = Parameters<Api["write"]>[0];

export async function requirePull(pulls: ServerPulls, number: number): Promise<PullRequest> {
  const pull = await pulls.get(number);
  if (pull !== null) return pull;
  const message = `${pulls.noun} ${number} does not exist in ${pulls.location}`;
  throw forgeRefused(message, "Give another number.", { why: "pull_missing", number });
}

/** Equal fields are not written, because each change is an event that users see. */
export async function updateServerPull(
  pulls: ServerPulls,
  number: number,
  params: {
    readonly change: { readonly title?: string; readonly body?: string };
    readonly request: (wanted: {
      readonly title: string;
      readonly body: string;
      readonly draft: boolean;
    }) => WriteRequest;
  },
): Promise<PullRequest> {
  const { change } = params;
  if (change.title !== undefined) requireText("title", change.title);
  const before = await requirePull(pulls, number);
  const title = change.title ?? before.title;
  const body =
    change.body === undefined
      ? before.body
      : truncateBody(change.body, pulls.maxBodyLength, (text) => keepMarkers(text, before.body));
  if (title === before.title && body === before.body) return before;
  return await writeOnce(pulls.api, {
    request: params.request({ title, body, draft: before.draft }),
    done: pulls.parse,
    async find() {
      const after = await requirePull(pulls, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => pulls.denied(`change ${pulls.noun} ${number}`),
    refused: ({ message }) =>
      forgeRefused(
        `${pulls.noun} ${number} in ${pulls.location} cannot be changed: ${message}`,
        "Check the requested title and body.",
        { why: "change_refused", number },
      ),
  });
}

/** A pull request that is closed already counts as success. */
export async function closeServerPull(pulls: ServerPulls, number: number, request: WriteRequest): Promise<PullRequest> {
  const before = await requirePull(pulls, number);
  if (before.state === "closed") return before;
  const cannot = (why: string, message: string): HoldfastError =>
    forgeRefused(
      `${pulls.noun} ${number} in ${pulls.location} cannot be closed: ${message}`,
      `Check the ${pulls.noun}; nothing was changed.`,
      { why, number },
    );
  if (before.state === "merged") throw cannot("merged", "it is merged");
  return await writeOnce(pulls.api, {
    request,
    // It may have been merged a moment before.
    async done() {
      const after = await requirePull(pulls, number);
      if (after.state === "closed") return after;
      throw cannot(after.state, `it is ${after.state}`);
    },
    async find() {
      const after = await pulls.get(number);
      return after?.state === "closed" ? after : null;
    },
    hidden: () => pulls.denied(`close ${pulls.noun} ${number}`),
    async refused({ message }) {
      const after = await requirePull(pulls, number);
      return after.state === "closed" ? after : cannot(after.state === "merged" ? "merged" : "refused", message);
    },
  });
}

/** The server merges only while the head is the given commit. A pull request that is merged already counts as success. */
export async function mergeServerPull(
  pulls: ServerPulls,
  number: number,
  params: { readonly head: string; readonly request: () => WriteRequest | Promise<WriteRequest> },
): Promise<PullRequest> {
  const cannot = (why: string, message: string): HoldfastError =>
    forgeRefused(
      `${pulls.noun} ${number} in ${pulls.location} cannot be merged: ${message}`,
      `Check the ${pulls.noun}; nothing was merged.`,
      { why, number },
    );
  const pull = await requirePull(pulls, number);
  if (pull.state === "merged") return pull;
  if (pull.state === "closed") throw cannot("closed", "it is closed");
  if (pull.headCommit !== params.head)
    throw cannot("head_moved", `${pull.head} is at ${pull.headCommit}, not at ${params.head}`);
  if (pull.draft) throw cannot("draft", "it is a draft");
  return await writeOnce(pulls.api, {
    request: await params.request(),
    done: () => requirePull(pulls, number),
    async find() {
      const after = await pulls.get(number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => pulls.denied(`merge ${pulls.noun} ${number}`),
    async refused({ status, message }) {
      const after = await requirePull(pulls, number);
      // Another merge was faster.
      if (after.state === "merged") return after;
      const { mergeability } = after;
      const isOther = mergeability === "mergeable" || mergeability === "unknown";
      return cannot(status === 409 ? "head_moved" : isOther ? "refused" : mergeability, message);
    },
  });
}

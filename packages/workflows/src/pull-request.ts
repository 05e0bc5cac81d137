// Opening and updating a pull request as a side effect that happens at most once.

import type { Forge, NewPullRequest, PullRequest } from "@holdfast/core/forge";
import { type TypeOf, type Json, count, isJsonObject, object, parseShape, text } from "@holdfast/core/json";
import type { EffectOutcome } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { sanitizeText, waitOnce } from "./forge.ts";
import type { AnyStageContext } from "./worktree.ts";

export type OpenOutcome =
  | { readonly kind: "open"; readonly request: OpenedRequest }
  /** The base already contains every commit of the head. */
  | { readonly kind: "nothing_new"; readonly reason: string };

/** Delays, in milliseconds, for a forge that does not know a just-pushed branch yet. */
const HEAD_WAITS_MS = [2_000, 10_000, 30_000];

/**
 * Opens one pull request per head. An open one for that head is adopted, even if the run did not open it. Holdfast
 * retries what it can fix itself: disabled drafts, and a head that the forge does not know yet. For any other refusal
 * the run waits for the user, because no agent can fix it.
 */
export async function openPullRequest(
  context: AnyStageContext,
  forge: Forge,
  params: Omit<NewPullRequest, "key"> & { readonly purpose: string },
): Promise<OpenOutcome> {
  const { purpose } = params;
  const words = await publishableWords(context, params);
  let { draft } = params;
  for (let attempt = 1; ; attempt += 1) {
    const nth = attempt === 1 ? "" : `-${attempt}`;
    const outcome = await tryToOpen(context, forge, { ...params, ...words, draft, purpose: `${purpose}${nth}` });
    if (outcome.kind === "done")
      return {
        kind: "open",
        request: parseShape({ shape: REQUEST, value: outcome.receipt, what: "The receipt of a pull request" }),
      };
    const { why, hint } = refusalOf(outcome.detail);
    const wait = HEAD_WAITS_MS[attempt - 1];
    if (why === "nothing_new") return { kind: "nothing_new", reason: outcome.reason };
    if (why === "drafts_off" && draft) {
      draft = false;
      await context.note("This repository has no draft pull requests: opening one that is ready for review instead.");
    } else if (why === "head_missing" && wait !== undefined) {
      await context.sleep(`${purpose}-wait${nth}`, wait);
    } else {
      const reason = `No pull request could be opened: ${outcome.reason}.${hint} Fix this, then run \`holdfast resume ${context.run.id}\`.`;
      await waitOnce(context, { name: `${purpose}-waiting${nth}`, for: "you", reason });
    }
  }
}

async function tryToOpen(
  context: AnyStageContext,
  forge: Forge,
  params: Omit<NewPullRequest, "key"> & { readonly purpose: string },
): Promise<EffectOutcome<OpenedRequest>> {
  const { purpose, ...request } = params;
  return await context.effect<OpenedRequest>({
    purpose,
    kind: "pull_request",
    target: `${forge.name} ${request.head}`,
    payload: { head: request.head, base: request.base },
    about: request.title,
    lateMs: forge.lateMs,
    async lookUp() {
      const open = openOf(await forge.findPullRequest(request.head));
      return open === null ? { kind: "absent" } : { kind: "present", receipt: open };
    },
    act: (key) => create(forge, { ...request, key }),
  });
}

/**
 * Updates title and body of an existing pull request. If the forge refuses, this only reports it, because the work is
 * published either way.
 */
export async function updatePullRequestText(
  context: AnyStageContext,
  forge: Forge,
  params: { readonly number: number; readonly title: string; readonly body: string },
): Promise<void> {
  const { number } = params;
  const { title, body } = await publishableWords(context, params);
  const outcome = await context.effect<OpenedRequest>({
    purpose: "pull-request-text",
    kind: "pull_request_text",
    target: `${forge.name} #${number}`,
    payload: { number, title, body },
    about: title,
    lateMs: forge.lateMs,
    async lookUp() {
      const found = await forge.getPullRequest(number);
      const isThere = found?.title === title && found.body.includes(body);
      return isThere ? { kind: "present", receipt: requestOf(found) } : { kind: "absent" };
    },
    async act() {
      try {
        return { kind: "done", receipt: requestOf(await forge.updatePullRequest(number, { title, body })) };
      } catch (error) {
        return failedBy(error);
      }
    },
  });
  if (outcome.kind === "failed")
    await context.note(`The text of pull request #${number} stays as it is: ${outcome.reason}`);
}

async function publishableWords(
  context: AnyStageContext,
  words: { readonly title: string; readonly body: string },
): Promise<{ readonly title: string; readonly body: string }> {
  const what = "The text of the pull request";
  return {
    title: await sanitizeText(context, { what, text: words.title, kind: "plain" }),
    body: await sanitizeText(context, { what, text: words.body, kind: "markdown" }),
  };
}

async function create(forge: Forge, request: NewPullRequest): Promise<EffectOutcome<OpenedRequest>> {
  try {
    return { kind: "done", receipt: requestOf(await forge.createPullRequest(request)) };
  } catch (error) {
    const failed = failedBy(error);
    const open = isDenied(error) ? null : openOf(await forge.findPullRequest(request.head));
    return open === null ? failed : { kind: "done", receipt: open };
  }
}

/**
 * Turns a refusal of the forge into a value. Rethrows any other error, because it leaves open whether the forge acted.
 */
function failedBy(error: unknown): EffectOutcome<never> {
  if (!(error instanceof HoldfastError) || (error.code !== "FORGE_REFUSED" && error.code !== "FORGE_DENIED"))
    throw error;
  const { why } = error.data;
  const detail = { code: error.code, why: typeof why === "string" ? why : "refused", hint: error.hint ?? "" };
  return { kind: "failed", reason: error.message, detail };
}

function isDenied(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === "FORGE_DENIED";
}

function refusalOf(detail: Json): { readonly why: string; readonly hint: string } {
  if (!isJsonObject(detail)) return { why: "refused", hint: "" };
  const { why, hint } = detail;
  return {
    why: typeof why === "string" ? why : "refused",
    hint: typeof hint === "string" && hint !== "" ? ` ${hint}` : "",
  };
}

function openOf(found: PullRequest | null): OpenedRequest | null {
  return found?.state === "open" ? requestOf(found) : null;
}

function requestOf({ number, url }: PullRequest): OpenedRequest {
  return { number, url };
}

const REQUEST = object({ number: count, url: text });
export type OpenedRequest = TypeOf<typeof REQUEST>;

import { HoldfastError } from "../../core/error.ts";
import { count, object, parseShape, text } from "../../core/shape.ts";
import type { EffectOutcome } from "../../engine/stage-context.ts";
import type { Lookup } from "../../core/effect/effect-decision.ts";
import type { Forge, NewPullRequest, PullRequest } from "../../ports/forge.ts";
import type { AnyContext } from "../any-context.ts";

export type OpenedRequest = { readonly number: number; readonly url: string };

export type Opened =
  | { readonly kind: "open"; readonly request: OpenedRequest }
  | { readonly kind: "refused"; readonly reason: string; readonly denied: boolean };

/** One pull request a head: whatever is open for it, whoever opened it, is ours to go on with. */
export async function openPullRequest(
  context: AnyContext,
  forge: Forge,
  params: Omit<NewPullRequest, "key"> & { readonly purpose: string },
): Promise<Opened> {
  const { purpose, ...request } = params;
  const outcome = await context.effect<OpenedRequest>({
    purpose,
    kind: "pull_request",
    target: `${forge.name} ${request.head}`,
    payload: { head: request.head, base: request.base },
    lateMs: forge.lateMs,
    lookUp: () => lookUp(async () => openOf(await forge.findPullRequest(request.head))),
    act: (key) => create(forge, { ...request, key }),
  });
  if (outcome.kind === "failed")
    return { kind: "refused", reason: outcome.reason, denied: outcome.detail === "FORGE_DENIED" };
  return {
    kind: "open",
    request: parseShape({ shape: REQUEST, value: outcome.receipt, what: "The receipt of a pull request" }),
  };
}

/** New words for a pull request that is there. */
export async function rewordPullRequest(
  context: AnyContext,
  forge: Forge,
  params: { readonly number: number; readonly title: string; readonly body: string },
): Promise<void> {
  const { number, title, body } = params;
  await context.effect<OpenedRequest>({
    purpose: "pull-request-text",
    kind: "pull_request_text",
    target: `${forge.name} #${number}`,
    payload: { number, title, body },
    lateMs: forge.lateMs,
    lookUp: () =>
      lookUp(async () => {
        const found = await forge.getPullRequest(number);
        return found?.title === title && found.body.includes(body) ? requestOf(found) : null;
      }),
    act: async () => {
      const changed = await forge.updatePullRequest(number, { title, body });
      return { kind: "done", receipt: requestOf(changed) };
    },
  });
}

async function create(forge: Forge, request: NewPullRequest): Promise<EffectOutcome<OpenedRequest>> {
  try {
    return { kind: "done", receipt: requestOf(await forge.createPullRequest(request)) };
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_REFUSED" && error.code !== "FORGE_DENIED"))
      throw error;
    const open = error.code === "FORGE_REFUSED" ? openOf(await forge.findPullRequest(request.head)) : null;
    if (open !== null) return { kind: "done", receipt: open };
    return { kind: "failed", reason: error.message, detail: error.code };
  }
}

async function lookUp(find: () => Promise<OpenedRequest | null>): Promise<Lookup> {
  try {
    const found = await find();
    return found === null ? { kind: "absent" } : { kind: "present", receipt: found };
  } catch (error) {
    if (error instanceof HoldfastError && error.code.startsWith("FORGE_"))
      return { kind: "unknown", reason: error.message };
    throw error;
  }
}

function openOf(found: PullRequest | null): OpenedRequest | null {
  return found?.state === "open" ? requestOf(found) : null;
}

function requestOf({ number, url }: PullRequest): OpenedRequest {
  return { number, url };
}

const REQUEST = object<OpenedRequest>({ number: count, url: text });

import { HoldfastError } from "../../core/error.ts";
import { object, parseShape, text, oneOf } from "../../core/shape.ts";
import type { EffectOutcome } from "../../engine/stage-context.ts";
import type { Branch, Refusal } from "../../ports/branch.ts";
import { parkOnce } from "./park-once.ts";
import { ANSWER_TO, isTemporary, REFUSAL_HINT, REFUSED_WAITS_MS } from "./push-refusal.ts";
import { settleCommits } from "./settle-commits.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

export type Pushed =
  | { readonly kind: "pushed"; readonly commit: string; readonly remote: string }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly remote: string };

type Receipt = { readonly commit: string };

/**
 * Pushes the head, once, over `expected` and nothing else. A failure on the remote side is tried again, then waited for. What the user has to fix
 * (access, a secret) waits for the user and is tried again under a purpose of its own afterwards.
 */
export async function pushBranch(
  context: AnyContext,
  worktree: Worktree,
  params: { readonly head: string; readonly expected: string | null },
): Promise<Pushed> {
  const { branch } = worktree;
  const remote = await branch.pushRemote();
  if (remote === null)
    return await context.park({
      on: "person",
      reason: "The repository has no remote to push to. Add one, then resume.",
    });
  await settleCommits(context, worktree);
  for (let attempt = 1; ; attempt += 1) {
    const outcome: EffectOutcome<Receipt> = await context.effect<Receipt>({
      purpose: attempt === 1 ? "push" : `push-${attempt}`,
      kind: "push",
      target: `${remote.url} ${branch.name}`,
      payload: { commit: params.head, expected: params.expected },
      ...(params.expected === null ? {} : { risk: `push over ${branch.name} on ${remote.name}` }),
      lookUp: async () => {
        const found = await branch.lookUpRemote(branch.name);
        if (found.kind === "unknown") return { ...found, ...(found.isTemporary ? { later: { until: null } } : {}) };
        return found.commit === params.head
          ? { kind: "present", receipt: { commit: params.head } }
          : { kind: "absent" };
      },
      act: () => push(branch, remote.name, params),
    });
    if (outcome.kind === "done") return { kind: "pushed", commit: params.head, remote: remote.name };
    const refusal = parseShape({ shape: REFUSAL, value: outcome.detail, what: "The refusal of a push" });
    const wait = REFUSED_WAITS_MS[refusal.cause]?.[attempt - 1];
    if (wait !== undefined) {
      await context.sleep(`push-again-${attempt}`, wait);
      continue;
    }
    if (ANSWER_TO[refusal.cause] !== "park") return { kind: "refused", refusal, remote: remote.name };
    const hint = REFUSAL_HINT[refusal.cause] ?? "";
    const reason = `The push to ${remote.name} was refused (${refusal.cause}): ${refusal.message.trim()}. ${hint}${hint === "" ? "" : " "}Fix this, then run \`holdfast resume ${context.run.id}\`.`;
    await parkOnce(context, { name: `push-parked-${attempt}`, on: "person", reason });
  }
}

/** A connection that fails in the middle says nothing about what arrived: the caller asks the remote before it tries again. */
async function push(
  branch: Branch,
  remote: string,
  params: { readonly head: string; readonly expected: string | null },
): Promise<EffectOutcome<Receipt>> {
  const result = await branch.push({ expected: params.expected });
  if (result.kind !== "refused") return { kind: "done", receipt: { commit: result.commit } };
  const { cause, message } = result.refusal;
  const refused: EffectOutcome<Receipt> = {
    kind: "failed",
    reason: `${cause}: ${message}`,
    detail: { cause, message },
  };
  if (!isTemporary(cause)) return refused;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `Pushing ${branch.name} to ${remote} failed (${cause}): ${message.trim()}`,
    hint: "Resume when the remote answers: it is asked before anything is pushed again.",
    retry: "later",
  });
}

const REFUSAL = object<{ cause: Refusal["cause"]; message: string }>({
  cause: oneOf<Refusal["cause"]>({
    non_fast_forward: true,
    stale_lease: true,
    hook: true,
    local_hook: true,
    protected: true,
    secret: true,
    auth: true,
    network: true,
    remote: true,
    missing_remote: true,
    other: true,
  }),
  message: text,
});

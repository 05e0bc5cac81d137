import { HoldfastError } from "../../core/error.ts";
import { object, parseShape, text, oneOf } from "../../core/shape.ts";
import type { EffectOutcome } from "../../engine/stage-context.ts";
import type { Branch, Refusal } from "../../ports/branch.ts";
import { parkOnce } from "./park-once.ts";
import { ANSWER_TO } from "./push-refusal.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

export type Pushed =
  | { readonly kind: "pushed"; readonly commit: string; readonly remote: string }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly remote: string };

type Receipt = { readonly commit: string };

/**
 * Pushes the head, once, over `expected` and nothing else. What a person has to mend (access, network) parks the run and is tried again
 * under a purpose of its own afterwards.
 */
export async function pushBranch(
  context: AnyContext,
  { branch }: Worktree,
  params: { readonly head: string; readonly expected: string | null },
): Promise<Pushed> {
  const remote = await branch.pushRemote();
  if (remote === null)
    return await context.park({
      on: "person",
      reason: "The repository has no remote to push to. Add one, then resume.",
    });
  for (let attempt = 1; ; attempt += 1) {
    const outcome: EffectOutcome<Receipt> = await context.effect<Receipt>({
      purpose: attempt === 1 ? "push" : `push-${attempt}`,
      kind: "push",
      target: `${remote.url} ${branch.name}`,
      payload: { commit: params.head, expected: params.expected },
      ...(params.expected === null ? {} : { risk: `push over ${branch.name} on ${remote.name}` }),
      lookUp: async () => {
        const found = await branch.lookUpRemote(branch.name);
        if (found.kind === "unknown") return found;
        return found.commit === params.head
          ? { kind: "present", receipt: { commit: params.head } }
          : { kind: "absent" };
      },
      act: () => push(branch, params),
    });
    if (outcome.kind === "done") return { kind: "pushed", commit: params.head, remote: remote.name };
    const refusal = parseShape({ shape: REFUSAL, value: outcome.detail, what: "The refusal of a push" });
    if (ANSWER_TO[refusal.cause] !== "park") return { kind: "refused", refusal, remote: remote.name };
    const reason = `Pushing to ${remote.name} failed (${refusal.cause}): ${refusal.message.trim()}. Put that right, then resume.`;
    await parkOnce(context, { name: `push-parked-${attempt}`, on: "person", reason });
  }
}

/** A network that fails in the middle says nothing about what arrived, so the remote is asked before this counts as a no. */
async function push(
  branch: Branch,
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
  if (cause !== "network") return refused;
  const found = await branch.lookUpRemote(branch.name);
  if (found.kind === "known")
    return found.commit === params.head ? { kind: "done", receipt: { commit: params.head } } : refused;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `Whether the push of ${branch.name} arrived is not known: ${message.trim()}; then: ${found.reason}`,
    hint: "Resume when the remote answers: it is asked before anything is pushed again.",
    retry: "later",
  });
}

const REFUSAL = object<{ cause: Refusal["cause"]; message: string }>({
  cause: oneOf<Refusal["cause"]>({
    non_fast_forward: true,
    stale_lease: true,
    hook: true,
    protected: true,
    auth: true,
    network: true,
    missing_remote: true,
    other: true,
  }),
  message: text,
});

import type { Effect, EffectIntended, EffectState } from "./effect.ts";
import { HoldfastError } from "../error.ts";
import type { Json } from "../json.ts";
import { RERUN_OF } from "../run/plan-begin.ts";
import { RUN_ID } from "../run/run.ts";
import type { PendingDecision, Run } from "../run/run.ts";

/** What the target says. "absent" only after an authenticated and complete answer; every doubt is "unknown". */
export type Lookup =
  | { readonly kind: "present"; readonly receipt: Json }
  | { readonly kind: "absent" }
  | {
      readonly kind: "unknown";
      readonly reason: string;
      /** Set when the target cannot be reached for now. `until`: the time that it names itself, if any. */
      readonly later?: { readonly until: string | null };
    };

export type EffectDecision =
  /** It is there: record the receipt, do nothing. */
  | { readonly action: "adopt"; readonly receipt: Json }
  | { readonly action: "act" }
  /** The target does not answer for now: look it up again later. */
  | { readonly action: "wait"; readonly why: string; readonly until: string | null }
  | { readonly action: "ask"; readonly why: string };

/** At most once unless proven absent: only a target that says "not here" lets us act. */
export function decideEffect(params: { readonly state: EffectState; readonly lookup: Lookup }): EffectDecision {
  if (params.state.kind === "done") return { action: "adopt", receipt: params.state.receipt };
  switch (params.lookup.kind) {
    case "present":
      return { action: "adopt", receipt: params.lookup.receipt };
    case "absent":
      return { action: "act" };
    case "unknown": {
      const { reason: why, later } = params.lookup;
      return later === undefined ? { action: "ask", why } : { action: "wait", why, until: later.until };
    }
  }
}

/** Label of a run whose user agreed to its outside effects when it was created. */
export const MAY_PUBLISH = "may-publish";

/** Step of the visit that holds the answer. */
export const PUBLISH_CONSENT = "consent:publish";

/**
 * The question before the first outside effect of a run that repeats another run's work: a fork or a rerun. It is asked once: after that, the
 * run's own ledger holds an effect. null: nothing is asked.
 */
export function publishQuestion(
  run: Pick<Run, "id" | "forkedFrom" | "labels">,
  next: { readonly effects: number; readonly kind: string; readonly target: string },
): PendingDecision | null {
  if (next.effects > 0 || run.labels[MAY_PUBLISH] === true) return null;
  const rerun = run.labels[RERUN_OF];
  const origin =
    run.forkedFrom !== null
      ? `a fork of ${run.forkedFrom.id}`
      : typeof rerun === "string"
        ? `a rerun of ${rerun}`
        : null;
  if (origin === null) return null;
  const question = `${run.id} is ${origin}, and its next step is ${next.kind} on ${next.target}. May it push and publish?`;
  return { name: PUBLISH_CONSENT, question, options: ["publish", "stop"] };
}

/**
 * Throws CONFLICT when the key stands for something else already: another target, or another payload while it is not
 * known that the first one did not happen.
 */
export function checkIntent(existing: Effect | undefined, intent: Omit<EffectIntended, "detail">): void {
  if (existing === undefined) return;
  const sameThing = existing.kind === intent.kind && existing.target === intent.target;
  if (sameThing && (existing.payload === intent.payload || existing.state.kind === "failed")) return;
  throw new HoldfastError({
    code: "CONFLICT",
    message: `Effect ${intent.key} is ${existing.state.kind} as ${existing.kind} on ${existing.target} and cannot become ${intent.kind} on ${intent.target} with another content`,
    hint: "Give each purpose a name of its own within its stage; settle what is unknown before trying something else.",
    retry: "ask",
    data: { key: intent.key, was: existing.payload, is: intent.payload },
  });
}

const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

/**
 * The same purpose in the same stage of the same run is the same effect, also after a crash. All three are names that
 * people wrote into code: text from a model does not fit, so it cannot decide what counts as done.
 */
export function effectKey(params: { readonly run: string; readonly stage: string; readonly purpose: string }): string {
  const { run, stage, purpose } = params;
  const bad = !RUN_ID.test(run) ? run : [stage, purpose].find((name) => !NAME.test(name));
  if (bad === undefined) return `${run}/${stage}/${purpose}`;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(bad)} cannot be part of an effect's key`,
    hint: "Use lower-case letters, digits, dots, hyphens and underscores; name the purpose, not the content.",
  });
}

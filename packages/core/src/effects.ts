import { HoldfastError } from "@holdfast/platform/error";
import type { EntryKind, JournalEntry } from "./journal.ts";
import {
  type Digest,
  type Json,
  type JsonObject,
  type Shape,
  flag,
  json,
  jsonObject,
  object,
  oneOf,
  optional,
  parseShape,
  tagged,
  text,
} from "./json.ts";
import { type PendingDecision, RERUN_OF, RUN_ID, type Run } from "./run.ts";

/** A change to the outside world. The key comes from run, stage and purpose, never from text a model wrote. */
export interface Effect {
  readonly run: string;
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly payload: Digest;
  readonly state: EffectState;
}

export type EffectState =
  | { readonly kind: "intended"; readonly at: string }
  | { readonly kind: "unknown"; readonly at: string; readonly reason: string }
  | { readonly kind: "done"; readonly at: string; readonly adopted: boolean; readonly receipt: Json }
  | { readonly kind: "failed"; readonly at: string; readonly reason: string; readonly detail?: Json };

/** Bodies of the three effect entries; the effects table is their fold. */
export type EffectIntended = {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly payload: Digest;
  readonly detail: JsonObject;
};
type EffectUnknown = { readonly key: string; readonly reason: string };
export type EffectSettled =
  | { readonly key: string; readonly outcome: "done"; readonly adopted: boolean; readonly receipt: Json }
  | { readonly key: string; readonly outcome: "failed"; readonly reason: string; readonly detail?: Json };

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

type EffectDecision =
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

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

/** The ledger of a run, in the order in which effects were first intended. */
export function foldEffects(entries: Iterable<FoldedEntry>): readonly Effect[] {
  const effects = new Map<string, Effect>();
  for (const entry of entries) {
    const change = stepEffect((key) => effects.get(key), entry);
    if (change !== null) effects.set(change.key, change);
  }
  return [...effects.values()];
}

/**
 * The effect that this entry changes, as it is afterwards; null when it changes none. For stores that keep the ledger
 * beside the journal. Done is final: nothing that comes later makes an effect that happened not have happened.
 */
export function stepEffect(find: (key: string) => Effect | undefined, entry: FoldedEntry): Effect | null {
  switch (entry.kind) {
    case "effect.intended":
      return intend(find, entry);
    case "effect.unknown": {
      const body = parseShape({ shape: unknownShape, value: entry.body, what: nameOf(entry) });
      const effect = known(find(body.key), entry, body.key);
      if (effect.state.kind === "done") return null;
      return { ...effect, state: { kind: "unknown", at: entry.at, reason: body.reason } };
    }
    case "effect.settled": {
      const body = parseShape({ shape: settledShape, value: entry.body, what: nameOf(entry) });
      const effect = known(find(body.key), entry, body.key);
      return effect.state.kind === "done" ? null : { ...effect, state: settledState(body, entry.at) };
    }
    default:
      return null;
  }
}

/** The kinds that stepEffect looks at; every other changes no effect. */
export function concernsEffect(kind: EntryKind): boolean {
  return kind === "effect.intended" || kind === "effect.unknown" || kind === "effect.settled";
}

const intendedShape: Shape<EffectIntended> = object<EffectIntended>({
  key: text,
  kind: text,
  target: text,
  payload: text,
  detail: jsonObject,
});
const unknownShape: Shape<EffectUnknown> = object<EffectUnknown>({ key: text, reason: text });
const settledShape: Shape<EffectSettled> = tagged<EffectSettled, "outcome">("outcome", {
  done: object({ key: text, outcome: oneOf({ done: true }), adopted: flag, receipt: json }),
  failed: object({ key: text, outcome: oneOf({ failed: true }), reason: text, detail: optional(json) }),
});

/** A second intent for the same key is the same effect tried again, perhaps with another payload after a failure. */
function intend(find: (key: string) => Effect | undefined, entry: FoldedEntry): Effect | null {
  const { key, kind, target, payload } = parseShape({
    shape: intendedShape,
    value: entry.body,
    what: nameOf(entry),
  });
  if (find(key)?.state.kind === "done") return null;
  return { run: entry.run, key, kind, target, payload, state: { kind: "intended", at: entry.at } };
}

function settledState(body: EffectSettled, at: string): Effect["state"] {
  switch (body.outcome) {
    case "done":
      return { kind: "done", at, adopted: body.adopted, receipt: body.receipt };
    case "failed":
      return body.detail === undefined
        ? { kind: "failed", at, reason: body.reason }
        : { kind: "failed", at, reason: body.reason, detail: body.detail };
  }
}

function known(effect: Effect | undefined, entry: FoldedEntry, key: string): Effect {
  if (effect !== undefined) return effect;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `${nameOf(entry)} speaks of effect ${JSON.stringify(key)}, which was never intended`,
    hint: "Run `holdfast verify` to see where the journal is damaged.",
  });
}

function nameOf(entry: FoldedEntry): string {
  return `Journal entry ${entry.entry} of run ${entry.run} (${entry.kind})`;
}

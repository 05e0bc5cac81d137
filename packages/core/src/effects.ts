// Pure rules for side effects: their states, when to act, adopt or ask, their idempotency keys, and the ledger folded from the journal.
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type EntryKind, type JournalEntry, entryName, readBody } from "./journal.ts";
import {
  type Digest,
  type Json,
  type TypeOf,
  flag,
  json,
  jsonObject,
  object,
  optional,
  sha256,
  text,
  variants,
} from "./json.ts";
import { type PendingDecision, RERUN_OF, RUN_ID, type Run } from "./run.ts";

/** A change outside of the run. The key consists of run, stage and purpose, never of text that a model wrote. */
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
  | { readonly kind: "failed"; readonly at: string; readonly reason: string; readonly detail?: Json }
  /** It was done, and the user asked to undo it. Only the target knows whether that happened. */
  | { readonly kind: "undoing"; readonly at: string; readonly adopted: boolean; readonly receipt: Json }
  /** `undo` is the receipt of the undo. */
  | {
      readonly kind: "undone";
      readonly at: string;
      readonly adopted: boolean;
      readonly receipt: Json;
      readonly undo: Json;
    };

/** Bodies of the effect entries. The effects table is a fold over them. */
const intendedShape = object({ key: text, kind: text, target: text, payload: text, detail: jsonObject });
export type EffectIntended = TypeOf<typeof intendedShape>;
const unknownShape = object({ key: text, reason: text });
const settledShape = variants("outcome", {
  done: object({ key: text, adopted: flag, receipt: json }),
  failed: object({ key: text, reason: text, detail: optional(json) }),
});
export type EffectSettled = TypeOf<typeof settledShape>;
const undoingShape = object({ key: text });
const undoneShape = variants("outcome", {
  /** `adopted`: the target reported it as undone before Holdfast acted. */
  undone: object({ key: text, adopted: flag, receipt: json }),
  /** The target refused, so the effect is still done. */
  kept: object({ key: text, reason: text }),
});
export type EffectUndone = TypeOf<typeof undoneShape>;

/** The target's answer. "absent" requires an authenticated and complete answer; every doubt is "unknown". */
export type Lookup =
  | { readonly kind: "present"; readonly receipt: Json }
  | { readonly kind: "absent" }
  | {
      readonly kind: "unknown";
      readonly reason: string;
      /** Set when the target is temporarily unreachable. `until` is the time that the target names, or null. */
      readonly later?: { readonly until: string | null };
    };

type EffectDecision =
  /** The effect exists: record the receipt and do nothing. */
  | { readonly action: "adopt"; readonly receipt: Json }
  | { readonly action: "act" }
  /** The target does not answer now. Look it up again later. */
  | { readonly action: "wait"; readonly why: string; readonly until: string | null }
  | { readonly action: "ask"; readonly why: string };

/** At most once unless proven absent: the engine acts only if the target reports that the effect does not exist. */
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

/** Label of a run whose user agreed to external effects when it was created. */
export const MAY_PUBLISH = "may-publish";

/** Step that holds the user's answer. */
export const PUBLISH_CONSENT = "consent:publish";

/**
 * The question before the first external effect of a fork or rerun, which repeats another run's work. It is asked once,
 * because afterwards the run's own ledger holds an effect. null: no question.
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

/** What the user approves: one effect with this content, in one stage attempt. */
interface Approval {
  readonly kind: string;
  readonly target: string;
  readonly payload: Digest;
  readonly stageAttempt: number;
}

const APPROVAL = "approval:";

export function isApprovalStep(step: string): boolean {
  return step.startsWith(APPROVAL);
}

/**
 * Step that holds the user's answer. A repeated try of the same effect finds it. Other content, and the same effect after a restore, have
 * another name and are asked about again.
 */
export function approvalStep({ kind, target, payload, stageAttempt }: Approval): string {
  return `${APPROVAL}${kind}:${sha256(`${target}\n${payload}`).slice(0, 12)}.${stageAttempt}`;
}

/** The question before an effect of a kind that the settings name. null: no question. */
export function approvalQuestion(
  approve: readonly string[],
  next: Approval & { readonly run: string; readonly about?: string },
): PendingDecision | null {
  if (!approve.includes(next.kind)) return null;
  const about = next.about === undefined ? "" : ` (${next.about.slice(0, MAX_ABOUT).toWellFormed()})`;
  const question = `${next.run} is ready for ${next.kind} on ${next.target}${about}. May it go ahead?`;
  return { name: approvalStep(next), question, options: ["approve", "stop"] };
}

const MAX_ABOUT = 500;

/**
 * Throws CONFLICT when the key already belongs to another kind or target. The same applies to another payload, unless
 * the first one is known to have failed.
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
 * The same purpose in the same stage of the same run is the same effect, also after a crash. All three are names from
 * code. Text from a model does not match the pattern, so a model cannot decide what counts as done.
 */
export function effectKey(params: { readonly run: string; readonly stage: string; readonly purpose: string }): string {
  const { run, stage, purpose } = params;
  const bad = !RUN_ID.test(run) ? run : [stage, purpose].find((name) => !NAME.test(name));
  if (bad === undefined) return `${run}/${stage}/${purpose}`;
  throw usageError(
    `${JSON.stringify(bad)} cannot be part of an effect's key`,
    "Use lower-case letters, digits, dots, hyphens and underscores; name the purpose, not the content.",
  );
}

/**
 * The key under which an effect happens now. An undone effect keeps its key, so that its marker at the target does not
 * count for the next one.
 */
export function currentKey(effects: Readonly<Record<string, Effect>>, first: string): string {
  const isTaken = (key: string): boolean => {
    const effect = Object.hasOwn(effects, key) ? effects[key] : undefined;
    return effect !== undefined && isUndone(effect);
  };
  let key = first;
  for (let again = 2; isTaken(key); again += 1) key = `${first}-again-${again}`;
  return key;
}

/** It happened, and the user has undone it or asked for that. */
export function isUndone(
  effect: Effect,
): effect is Effect & { readonly state: Extract<EffectState, { readonly undo: Json } | { readonly kind: "undoing" }> } {
  return effect.state.kind === "undone" || effect.state.kind === "undoing";
}

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

/**
 * Returns the effect that this entry changes, in its new state. null: it changes none. Used by stores that keep the
 * effects in a table. Done is final until the user undoes the effect: no other entry changes it.
 */
export function stepEffect(find: (key: string) => Effect | undefined, entry: FoldedEntry): Effect | null {
  switch (entry.kind) {
    case "effect.intended":
      return intend(find, entry);
    case "effect.unknown": {
      const body = readBody(unknownShape, entry);
      const effect = known(find(body.key), entry, body.key);
      if (isFinal(effect)) return null;
      return { ...effect, state: { kind: "unknown", at: entry.at, reason: body.reason } };
    }
    case "effect.settled": {
      const body = readBody(settledShape, entry);
      const effect = known(find(body.key), entry, body.key);
      return isFinal(effect) ? null : { ...effect, state: settledState(body, entry.at) };
    }
    case "effect.undoing": {
      const { key } = readBody(undoingShape, entry);
      const effect = known(find(key), entry, key);
      return effect.state.kind === "done"
        ? { ...effect, state: { ...effect.state, kind: "undoing", at: entry.at } }
        : null;
    }
    case "effect.undone": {
      const body = readBody(undoneShape, entry);
      const effect = known(find(body.key), entry, body.key);
      if (effect.state.kind !== "undoing") return null;
      const { adopted, receipt } = effect.state;
      const was = { at: entry.at, adopted, receipt };
      return body.outcome === "kept"
        ? { ...effect, state: { kind: "done", ...was } }
        : { ...effect, state: { kind: "undone", ...was, undo: body.receipt } };
    }
    default:
      return null;
  }
}

/** An effect with its place in the journal. */
export interface PlacedEffect extends Effect {
  /** The entry that put it in its state. An undo that the target refused changes nothing. */
  readonly entry: number;
}

/** Folds entries as `stepEffect` does, into effects that can be ordered: times are labels. */
export function placeEffect(effects: Map<string, PlacedEffect>, entry: FoldedEntry): void {
  const effect = stepEffect((key) => effects.get(key), entry);
  if (effect === null) return;
  const before = effects.get(effect.key);
  const stays = effect.state.kind === "undoing" || (before?.state.kind === "undoing" && effect.state.kind === "done");
  effects.set(effect.key, { ...effect, entry: stays && before !== undefined ? before.entry : entry.entry });
}

/** The kinds that stepEffect handles. No other kind changes an effect. */
export const EFFECT_KINDS: ReadonlySet<EntryKind> = new Set([
  "effect.intended",
  "effect.unknown",
  "effect.settled",
  "effect.undoing",
  "effect.undone",
]);

/** It happened, and neither a lookup nor a late answer of the target changes that. */
function isFinal(effect: Effect): boolean {
  return effect.state.kind === "done" || isUndone(effect);
}

/** The body of an intent, which is the only entry that holds the effect's payload. */
export function readIntent(entry: FoldedEntry): EffectIntended {
  return readBody(intendedShape, entry);
}

/** A second intent for the same key is a new attempt at the same effect. After a failure its payload may differ. */
function intend(find: (key: string) => Effect | undefined, entry: FoldedEntry): Effect | null {
  const { key, kind, target, payload } = readIntent(entry);
  const before = find(key);
  if (before !== undefined && isFinal(before)) return null;
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
    message: `${entryName(entry)} speaks of effect ${JSON.stringify(key)}, which was never intended`,
    hint: "Run `holdfast verify` to see where the journal is damaged.",
  });
}

import type { Effect, EffectIntended, EffectSettled, EffectUnknown } from "./effect.ts";
import { HoldfastError } from "../error.ts";
import type { EntryKind, JournalEntry } from "../journal/journal.ts";
import { flag, json, jsonObject, object, oneOf, optional, parseShape, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";

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

// What the tables say about a run, computed from its journal alone: verify compares the two, and an import writes the tables from it.

import { type Effect, stepEffect } from "../effects.ts";
import type { JournalEntry } from "../journal.ts";
import type { Digest, Json } from "../json.ts";
import { NEW_RUN, type RunFold, stepRun } from "../status.ts";

/** Everything that the tables say, computed again from the journal alone. */
export interface Fold {
  readonly tags: Map<string, number>;
  readonly effects: Map<string, Effect>;
  readonly dropped: Map<number, { readonly at: string; readonly why: string }>;
  readonly quarantined: Map<number, number>;
  run: RunFold;
  epoch: number;
  /** The owner's record while the lease is held. */
  lease: Json;
  sequence: number;
  digest: Digest | null;
}

export function newFold(): Fold {
  return {
    tags: new Map(),
    effects: new Map(),
    dropped: new Map(),
    quarantined: new Map(),
    run: NEW_RUN,
    epoch: 0,
    lease: null,
    sequence: 0,
    digest: null,
  };
}

/** Adds every entry except checkpoints, whose order and parents their reader checks. */
export function addToFold(fold: Fold, entry: JournalEntry): void {
  const { kind, body } = entry;
  fold.run = stepRun(fold.run, entry);
  const effect = stepEffect((key) => fold.effects.get(key), entry);
  if (effect !== null) fold.effects.set(effect.key, effect);
  switch (kind) {
    case "lease.taken":
      fold.epoch = entry.epoch;
      fold.lease = body["owner"] ?? null;
      break;
    case "lease.released":
      fold.lease = null;
      break;
    case "tag.added":
      fold.tags.set(String(body["name"]), Number(body["sequence"]));
      break;
    case "tag.removed":
      fold.tags.delete(String(body["name"]));
      break;
    case "checkpoint.dropped":
      for (const one of list(body["drops"])) {
        const sequence = Number(field(one, "sequence"));
        fold.dropped.set(sequence, { at: entry.at, why: String(field(one, "why")) });
        fold.quarantined.delete(sequence);
      }
      break;
    case "checkpoint.quarantined":
      for (const sequence of list(body["sequences"])) fold.quarantined.set(Number(sequence), entry.entry);
      break;
    default:
      break;
  }
}

function list(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function field(value: Json, key: string): unknown {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Reflect.get(value, key) : undefined;
}

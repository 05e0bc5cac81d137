import type { DatabaseSync } from "node:sqlite";
import { text } from "./columns.ts";
import { deepFreeze } from "@holdfast/core/json";
import type { Effect } from "@holdfast/core/effects";
import { HoldfastError } from "@holdfast/platform/error";

/** The ledger: the fold of each run's effect entries. */
export interface Effects {
  get(run: number, key: string): Effect | undefined;
  put(run: number, effect: Effect): void;
  /** In the order of their keys. */
  list(run: number): readonly Effect[];
}

export function createEffects(db: DatabaseSync): Effects {
  const get = db.prepare("SELECT effect FROM effects WHERE run = ? AND key = ?");
  const put = db.prepare(
    "INSERT INTO effects (run, key, effect) VALUES (?, ?, ?) ON CONFLICT (run, key) DO UPDATE SET effect = excluded.effect",
  );
  const list = db.prepare("SELECT effect FROM effects WHERE run = ? ORDER BY key");
  return {
    get(run, key) {
      const row = get.get(run, key);
      return row === undefined ? undefined : parseEffect(text(row, "effect"));
    },
    put: (run, effect) => void put.run(run, effect.key, JSON.stringify(effect)),
    list: (run) => list.all(run).map((row) => parseEffect(text(row, "effect"))),
  };
}

function parseEffect(json: string): Effect {
  try {
    const value: unknown = JSON.parse(json);
    if (isEffect(value)) return deepFreeze(value);
  } catch {
    // Told below, like any other damage.
  }
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: "An effect of the ledger is damaged",
    hint: "Run `holdfast verify`: the journal holds the ledger's every step.",
  });
}

/** We wrote it ourselves, and verify folds it again from the chained journal; this only keeps a torn row from passing. */
function isEffect(value: unknown): value is Effect {
  return (
    typeof value === "object" &&
    value !== null &&
    "key" in value &&
    typeof value.key === "string" &&
    "payload" in value &&
    typeof value.payload === "string" &&
    "state" in value &&
    typeof value.state === "object" &&
    value.state !== null &&
    "kind" in value.state
  );
}

import type { CapturedEntry } from "./capture-commit.ts";
import { deepFreeze } from "../core/deep-freeze.ts";
import type { Effect } from "../core/effect/effect.ts";
import { checkIntent } from "../core/effect/effect-decision.ts";
import { concernsEffect, stepEffect } from "../core/effect/effect-fold.ts";
import { HoldfastError } from "../core/error.ts";
import { effectConflict } from "../core/refusals.ts";

type Entry = Parameters<typeof stepEffect>[1];

/** What a commit's entries make of the ledger; CONFLICT when one does not fit. Changes nothing. */
export function foldEffects(params: {
  readonly run: string;
  readonly at: string;
  readonly entries: readonly CapturedEntry[];
  /** Number of the entry before the first of these. */
  readonly after: number;
  readonly current: (key: string) => Effect | undefined;
}): readonly Effect[] {
  const { run, at } = params;
  const folded = new Map<string, Effect>();
  for (const [i, entry] of params.entries.entries()) {
    const { kind } = entry;
    if (!concernsEffect(kind)) continue;
    const body = entry.body();
    const key = typeof body["key"] === "string" ? body["key"] : "";
    if (key === "") throw effectConflict({ run, why: "the entry names no effect key" });
    const before = folded.get(key) ?? params.current(key);
    const change = fittingStep(before, { run, entry: params.after + 1 + i, kind, at, body });
    if (change !== null) folded.set(key, deepFreeze(change));
  }
  return [...folded.values()];
}

/** What would be damage in a journal is a caller's mistake while nothing is written yet. */
function fittingStep(before: Effect | undefined, entry: Entry): Effect | null {
  try {
    checkFit(before, entry);
    return stepEffect(() => before, entry);
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
    throw effectConflict({ run: entry.run, why: error.message });
  }
}

/** The fold passes over what comes after "done"; a writer that says so is told instead. */
function checkFit(before: Effect | undefined, entry: Entry): void {
  if (entry.kind === "effect.intended") {
    const wish = stepEffect(() => undefined, entry);
    if (wish !== null) checkIntent(before, wish);
  } else if (before?.state.kind === "done" && entry.body["outcome"] !== "done") {
    throw effectConflict({ run: entry.run, why: `${before.key} is already done and cannot become anything else` });
  }
}

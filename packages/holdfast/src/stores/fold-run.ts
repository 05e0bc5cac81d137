import type { CapturedEntry } from "./capture-commit.ts";
import { deepFreeze } from "../core/deep-freeze.ts";
import { HoldfastError } from "../core/error.ts";
import { concernsRun, stepRun } from "../core/journal/run-fold.ts";
import type { RunFold } from "../core/journal/run-fold.ts";

/** What a commit's entries make of the run as a whole; null when none of them speaks of it. USAGE for a body that cannot be read later. */
export function foldRunEntries(params: {
  readonly run: string;
  readonly at: string;
  readonly entries: readonly CapturedEntry[];
  /** Number of the entry before the first of these. */
  readonly after: number;
  readonly current: () => RunFold;
}): RunFold | null {
  const { run, at, entries } = params;
  let fold: RunFold | null = null;
  for (const [i, { kind, body }] of entries.entries()) {
    if (!concernsRun(kind)) continue;
    fold = step(fold ?? params.current(), { run, entry: params.after + 1 + i, kind, at, body: body() });
  }
  return fold === null ? null : deepFreeze(fold);
}

function step(fold: RunFold, entry: Parameters<typeof stepRun>[1]): RunFold {
  try {
    return stepRun(fold, entry);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    throw new HoldfastError({
      code: "USAGE",
      message: error.message,
      hint: "Nothing was written. Give the entry the body that its kind asks for.",
      data: error.data,
      cause: error,
    });
  }
}

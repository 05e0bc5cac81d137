import { allPass } from "./check-trails.ts";
import type { ComparedRun } from "./compared-run.ts";

/** Who is best in one respect. Several where they are equal; nobody where all are, or where only one has a value. */
export interface Best {
  readonly dimension: string;
  readonly ids: readonly string[];
}

type Judged = Pick<ComparedRun, "id" | "checks" | "score" | "scores" | "metrics" | "spent" | "time">;

/**
 * Only where everybody agrees what better means: more that passes, a higher score, less spent, less time. How much code is changed is
 * neither. No sum over dimensions: which of them matters is for whoever chooses. By dimension, then in the order of ids.
 */
export function findBest(runs: readonly Judged[]): readonly Best[] {
  const bests: Best[] = [];
  const judge = (dimension: string, better: "more" | "less", valueOf: (run: Judged) => number | null): void => {
    const ids = bestIds(runs, better, valueOf);
    if (ids.length > 0) bests.push({ dimension, ids });
  };
  judge("checks", "more", ({ checks }) => toNumber(allPass(checks)));
  judge("score", "more", ({ score }) => score);
  for (const name of namesOf(runs, "scores")) judge(`score ${name}`, "more", (run) => measureOf(run, "scores", name));
  for (const name of namesOf(runs, "metrics")) {
    const better = directionOf(name);
    if (better !== null) judge(`metric ${name}`, better, (run) => measureOf(run, "metrics", name));
  }
  judge("tokens", "less", ({ spent }) => ((spent.uncounted ?? 0) > 0 || spent.tokens === 0 ? null : spent.tokens));
  // What nobody knows the price of is not cheap.
  judge("cost", "less", ({ spent }) => ((spent.unpriced ?? 0) > 0 || spent.microUsd === 0 ? null : spent.microUsd));
  judge("time", "less", ({ time }) => (time.work === 0 ? null : Math.ceil(time.work / 1000)));
  return bests;
}

function bestIds(
  runs: readonly Judged[],
  better: "more" | "less",
  valueOf: (run: Judged) => number | null,
): readonly string[] {
  const valued = runs.flatMap((run) => {
    const value = valueOf(run);
    return value === null ? [] : [{ id: run.id, value }];
  });
  const values = valued.map(({ value }) => value);
  const top = better === "more" ? Math.max(...values) : Math.min(...values);
  if (valued.length < 2 || values.every((value) => value === top)) return [];
  return [...new Set(valued.filter(({ value }) => value === top).map(({ id }) => id))].toSorted();
}

/** Told from the words in the name; null: nobody can say. */
export function directionOf(name: string): "more" | "less" | null {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/);
  if (words.some((word) => LESS.has(word))) return "less";
  return words.some((word) => MORE.has(word)) ? "more" : null;
}

const LESS: ReadonlySet<string> = new Set(
  "fail failed failing failures failure error errors warning warnings skipped bugs issues violations".split(" "),
);
const MORE: ReadonlySet<string> = new Set("pass passed passing quality score coverage".split(" "));

function namesOf(runs: readonly Judged[], which: "scores" | "metrics"): readonly string[] {
  return [...new Set(runs.flatMap((run) => run[which].map(({ name }) => name)))].toSorted();
}

function measureOf(run: Judged, which: "scores" | "metrics", name: string): number | null {
  return run[which].find((measure) => measure.name === name)?.value ?? null;
}

function toNumber(flag: boolean | null): number | null {
  return flag === null ? null : flag ? 1 : 0;
}

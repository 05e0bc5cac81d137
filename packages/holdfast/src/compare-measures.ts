/** Measures that a comparison of runs shows: scores, checks, cost, time and changed code, and which run is best in each. */
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { Amounts } from "@holdfast/core/position";
import type { CheckResult } from "@holdfast/core/rollback";
import type { Work } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import type { EffectSeen, LineagePoint } from "./compare-history.ts";

/**
 * The facts about one side of a comparison: a run as it is now, or as it was at a checkpoint. The facts are not
 * weighted.
 */
export interface ComparedRun {
  /** `RUN@n`; the bare run id if the run has no checkpoint. */
  readonly id: string;
  readonly run: string;
  /** null: the run has no checkpoint. */
  readonly sequence: number | null;
  readonly workflow: string;
  readonly work: Work;
  /** The status of the run now, even if an older checkpoint of it is compared. */
  readonly status: RunStatus;
  readonly stage: string | null;
  readonly iteration: number;
  readonly attempts: Readonly<Record<string, number>>;
  /** Agent calls and failed steps in this run's own journal. */
  readonly calls: number;
  readonly failures: number;
  readonly checks: readonly CheckTrail[];
  readonly score: number | null;
  /** The scores of the run, oldest first, without those that a restore discarded. */
  readonly scoreTrail: readonly number[];
  /** The newest score of each dimension. */
  readonly scores: readonly Measure[];
  readonly metrics: readonly Measure[];
  /** Everything that was spent, including by the runs that this one was forked from. */
  readonly spent: Amounts;
  /** Spent since the fork; null for a run that is not a fork. */
  readonly ownSpent: Amounts | null;
  /**
   * Milliseconds. `work`: time in which a process worked on the run, including before a fork. `wall`: from the first to
   * the last entry of this run alone.
   */
  readonly time: { readonly work: number; readonly wall: number };
  readonly effects: readonly EffectSeen[];
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** The run itself first, then the checkpoints that it was forked from. */
  readonly lineage: readonly LineagePoint[];
  readonly branch: string | null;
  readonly worktree: string | null;
  readonly tree: string | null;
  /** Number of files that differ from the last commit. */
  readonly uncommitted: number;
  readonly tags: readonly string[];
  /**
   * Damage in the journal of this run or of a run that it was forked from. Facts read from a damaged journal may be
   * wrong.
   */
  readonly damage: readonly string[];
}

/** The changes between two trees; null if one side has no files, or they are not in this repository. */
export interface CodeChange {
  readonly files: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: readonly FileLines[];
}

interface FileLines {
  readonly path: string;
  readonly status: string;
  /** The previous path of a renamed file; null otherwise. */
  readonly from: string | null;
  /** null: the file is binary. */
  readonly added: number | null;
  readonly removed: number | null;
}

/** A number that a workflow keeps about its work, with the name that the workflow gave it. */
interface Measure {
  readonly name: string;
  readonly value: number;
}

interface Measures {
  readonly scores: readonly Measure[];
  readonly metrics: readonly Measure[];
}

/**
 * Finds quality measures in the values of any workflow: numbers in objects whose name ends in `scores` or `metrics`,
 * and values called `quality`. The least nested match wins, and of a list the newest element that has any. Values
 * called best are skipped because they belong to an older iteration.
 */
export function readMeasures(values: JsonObject): Measures {
  const found: Found = { scores: new Map(), metrics: new Map() };
  let level: readonly Candidates[] = [[values]];
  for (let depth = 0; depth < DEEPEST; depth += 1) {
    for (const candidates of level) candidates.some((one) => takeFrom(one, found));
    level = level.flatMap(([newest]) => (newest === undefined ? [] : below(newest)));
  }
  return { scores: sorted(found.scores), metrics: sorted(found.metrics) };
}

type Found = Readonly<Record<keyof Measures, Map<string, number>>>;
/** The elements of one list, newest first. A single object counts as a list with one element. */
type Candidates = readonly JsonObject[];

/** Limits the search depth: values may be large, and workflows keep measures near the top. */
const DEEPEST = 4;
const NEWEST = 20;
const OLDER = /^best/i;

function below(value: JsonObject): readonly Candidates[] {
  return Object.entries(value).flatMap(([key, inner]): readonly Candidates[] => {
    if (OLDER.test(key) || kindOf(key) !== null) return [];
    if (isJsonArray(inner)) return [inner.slice(-NEWEST).toReversed().filter(isJsonObject)];
    return isJsonObject(inner) ? [[inner]] : [];
  });
}

function takeFrom(value: JsonObject, found: Found): boolean {
  let any = false;
  for (const [key, inner] of Object.entries(value)) {
    const kind = kindOf(key);
    if (kind === null || OLDER.test(key)) continue;
    if (isJsonObject(inner)) any = flatten(inner, "", found[kind]) || any;
    else if (key === "quality" && isFiniteNumber(inner)) any = keep(found[kind], key, inner) || any;
  }
  return any;
}

function kindOf(key: string): keyof Measures | null {
  if (/scores$/i.test(key) || key === "quality") return "scores";
  return /metrics$/i.test(key) ? "metrics" : null;
}

function flatten(record: JsonObject, prefix: string, into: Map<string, number>): boolean {
  let any = false;
  for (const [key, value] of Object.entries(record)) {
    const name = prefix + key;
    if (isFiniteNumber(value)) any = keep(into, name, value) || any;
    // Such an object is a list of names with a count of the omitted ones; the count alone is not a measure.
    else if (isJsonObject(value) && prefix === "" && !isJsonArray(value["names"] ?? null))
      any = flatten(value, `${name}.`, into) || any;
  }
  return any;
}

/** The first value keeps the name. */
function keep(into: Map<string, number>, name: string, value: number): true {
  if (!into.has(name)) into.set(name, value);
  return true;
}

function isFiniteNumber(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function sorted(measures: ReadonlyMap<string, number>): readonly Measure[] {
  return [...measures].map(([name, value]) => ({ name, value })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The verdicts of one check, oldest first. */
export interface CheckTrail {
  readonly name: string;
  readonly trail: readonly boolean[];
  readonly last: { readonly pass: boolean; readonly reason: string };
}

/**
 * Groups checks by name. `checks`: oldest first. A verdict repeated for the same files in one stage attempt (by a step and by the stage that
 * it ended) counts once. A different verdict on the same files is kept, and that of another attempt: an agent that changes nothing fails again.
 */
export function checkTrails(
  checks: readonly Pick<CheckResult, "name" | "pass" | "reason" | "files" | "stageAttempt">[],
): readonly CheckTrail[] {
  const trails = new Map<string, CheckTrail>();
  const judged = new Map<string, string>();
  for (const { name, pass, reason, files, stageAttempt } of checks) {
    const before = trails.get(name)?.trail ?? [];
    const place = `${stageAttempt} ${files}`;
    const again = judged.get(name) === place && before.at(-1) === pass;
    judged.set(name, place);
    trails.set(name, { name, trail: again ? before : [...before, pass], last: { pass, reason } });
  }
  return [...trails.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** null: nothing was ever checked. */
export function allPass(checks: readonly CheckTrail[]): boolean | null {
  return checks.length === 0 ? null : checks.every(({ last }) => last.pass);
}

/** The best runs in one dimension. Several if they are equal; none if all are equal or only one has a value. */
export interface Best {
  readonly dimension: string;
  readonly ids: readonly string[];
}

type Judged = Pick<
  ComparedRun,
  "id" | "checks" | "calls" | "failures" | "score" | "scores" | "metrics" | "spent" | "ownSpent" | "time"
>;

/**
 * Compares only dimensions with an undisputed direction: more passing checks, a higher score, less cost, less time. The
 * amount of changed code has none. There is no total over dimensions: the user decides which one matters. Sorted by
 * dimension, then by id.
 */
export function findBest(runs: readonly Judged[]): readonly Best[] {
  const bests: Best[] = [];
  // What a fork that has not run has spent is its source's: it is not the cheapest or the fastest.
  const ran = runs.filter(
    ({ ownSpent, calls, failures, checks }) => ownSpent === null || calls + failures + checks.length > 0,
  );
  const judge = (dimension: string, better: "more" | "less", valueOf: (run: Judged) => number | null): void => {
    const ids = bestIds(SPENT.has(dimension) ? ran : runs, better, valueOf);
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
  // A run with calls of unknown price must not count as cheap.
  judge("cost", "less", ({ spent }) => ((spent.unpriced ?? 0) > 0 || spent.microUsd === 0 ? null : spent.microUsd));
  judge("time", "less", ({ time }) => (time.work === 0 ? null : Math.ceil(time.work / 1000)));
  return bests;
}

const SPENT: ReadonlySet<string> = new Set(["tokens", "cost", "time"]);

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

/** Derives the direction from the words in the name; null: unknown. */
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

type ChangedFile = Pick<FileLines, "path" | "status" | "from">;

/**
 * `counts`: one line per file, in the order of `files`. Each line starts with added and removed lines (`-`: binary) and
 * a tab.
 */
export function countLines(files: readonly ChangedFile[], counts: string): CodeChange {
  const lines = counts.split("\n").filter((line) => line !== "");
  const changed = files.map(({ path, status, from }, at): FileLines => {
    const [added = "", removed = ""] = (lines[at] ?? "").split("\t");
    return { path, status, from, added: numberOf(added), removed: numberOf(removed) };
  });
  const sum = (pick: (file: FileLines) => number | null): number =>
    changed.reduce((total, file) => total + (pick(file) ?? 0), 0);
  return { files: changed.length, added: sum(({ added }) => added), removed: sum(({ removed }) => removed), changed };
}

function numberOf(text: string): number | null {
  return /^\d+$/.test(text) ? Number(text) : null;
}

import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";

/** A number that a workflow keeps about its work, by the name that it has there. */
export interface Measure {
  readonly name: string;
  readonly value: number;
}

export interface Measures {
  readonly scores: readonly Measure[];
  readonly metrics: readonly Measure[];
}

/**
 * What a workflow's values say about how good the work is, whatever the workflow: numbers in objects whose name ends in `scores` or `metrics`, and
 * what is called `quality`. The one that lies less deep counts, and of a list the newest element that has any. What is called best is
 * an older one's.
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
/** Elements of one list, newest first; a single object is a list of one. */
type Candidates = readonly JsonObject[];

/** Values may be large, and measures are kept where a person finds them. */
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
    // Names, and how many more there are: that number alone says nothing.
    else if (isJsonObject(value) && prefix === "" && !isJsonArray(value["names"] ?? null))
      any = flatten(value, `${name}.`, into) || any;
  }
  return any;
}

/** The first one keeps its name. */
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

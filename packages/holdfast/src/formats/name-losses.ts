import { isJsonArray, isJsonObject } from "../core/json.ts";
import type { Json } from "../core/json.ts";
import type { ForeignCheckpoint, Loss } from "./format.ts";

/** Why a path of ours has no place in a format, by path; the longest that fits is told. */
export type Reasons = Readonly<Record<string, string>>;

/**
 * All that `given` had and `back`, which is what the written document decodes to, does not have any more. A codec that
 * names its losses in this way cannot forget one, whatever is added to the planes later.
 */
export function nameLosses(given: ForeignCheckpoint, back: ForeignCheckpoint, reasons: Reasons): readonly Loss[] {
  return lostIn("", comparable(given), comparable(back)).map((path) => ({ path, why: reasonFor(path, reasons) }));
}

/** Planes at the top, as losses name them. */
function comparable({ planes, id, createdAt, trigger, workflow, work }: ForeignCheckpoint): object {
  return { id, createdAt, trigger, workflow, work, ...planes };
}

/** Objects that are named field by field; all others are lost or kept as a whole. */
const OPENED: ReadonlySet<string> = new Set([
  "",
  "position",
  "context",
  "context.values",
  "files",
  "inputs",
  "config",
  "extensions",
]);
/** Other keys would be mistaken for paths, so what holds them is named. */
const PLAIN_KEY = /^[A-Za-z0-9_-]+$/;

function lostIn(path: string, given: object, back: object): readonly string[] {
  const lost = new Set<string>();
  for (const key of Object.keys(given)) {
    const before: Json | undefined = Reflect.get(given, key);
    const after: Json | undefined = Object.hasOwn(back, key) ? Reflect.get(back, key) : undefined;
    const below = path === "" ? key : `${path}.${key}`;
    if (before === undefined || sameJson(before, after)) continue;
    // What a format adds of its own about the run is no loss.
    if (path === "extensions" && carries(before, after)) continue;
    if (!PLAIN_KEY.test(key)) lost.add(path);
    else if (OPENED.has(below) && isJsonObject(before) && isJsonObject(after))
      for (const deeper of lostIn(below, before, after)) lost.add(deeper);
    else lost.add(below);
  }
  return [...lost];
}

function reasonFor(path: string, reasons: Reasons): string {
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const why = Object.hasOwn(reasons, at) ? reasons[at] : undefined;
    if (why !== undefined) return why;
  }
  return "The format has no place for it";
}

/** Order of keys does not count. */
export function sameJson(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (isJsonArray(one))
    return (
      isJsonArray(other) && one.length === other.length && one.every((child, index) => sameJson(child, other[index]))
    );
  if (!isJsonObject(one) || !isJsonObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && sameJson(one[key], other[key]))
  );
}

/** Whether all of `one` is in `other`, which may have more. */
function carries(one: Json, other: Json | undefined): boolean {
  if (!isJsonObject(one) || !isJsonObject(other)) return sameJson(one, other);
  return Object.keys(one).every((key) => Object.hasOwn(other, key) && carries(one[key] ?? null, other[key]));
}

import type { JsonObject } from "../json.ts";
import { isAscending } from "./build-object.ts";

/** The engine lists the keys of a large object anew each time, and slowly. Captured objects never change. */
const listed = new WeakMap<object, readonly string[]>();
const WORTH_KEEPING = 1000;

/** Keys of a captured object in canonical order. */
export function sortedKeys(value: JsonObject): readonly string[] {
  const known = listed.get(value);
  if (known !== undefined) return known;
  const keys = Object.keys(value);
  if (!isAscending(keys)) keys.sort();
  if (keys.length > WORTH_KEEPING) listed.set(value, keys);
  return keys;
}

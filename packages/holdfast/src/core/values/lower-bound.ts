import { isJsonArray } from "../json.ts";
import type { Json } from "../json.ts";
import { sortedKeys } from "./sorted-keys.ts";

/** Whether canonical JSON of the value is surely longer than `limit`, found by looking at no more than that much of it. */
export function isLongerThan(value: Json, limit: number): boolean {
  return rest(value, limit) < 0;
}

/** What is left of `limit` after the value; negative as soon as it is used up. Escapes are not counted. */
function rest(value: Json, limit: number): number {
  if (typeof value === "string") return limit - value.length - 2;
  if (typeof value !== "object" || value === null) return limit - 1;
  let left = limit - 1;
  if (isJsonArray(value)) {
    for (const child of value) {
      left = rest(child, left - 1);
      if (left < 0) return left;
    }
    return left;
  }
  for (const key of sortedKeys(value)) {
    left = rest(value[key] ?? null, left - key.length - 4);
    if (left < 0) return left;
  }
  return left;
}

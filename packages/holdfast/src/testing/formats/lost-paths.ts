import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import { pointer } from "../../core/values/refusal.ts";

/** Pointers to all that `before` has and `after` does not have as it was. What is only in `after` is no loss. */
export function lostPaths(before: Json, after: Json | undefined, path: readonly string[] = []): readonly string[] {
  if (isJsonArray(before) && isJsonArray(after))
    return before.flatMap((child, index) => lostPaths(child, after[index], [...path, String(index)]));
  if (isJsonObject(before) && isJsonObject(after))
    return Object.keys(before).flatMap((key) =>
      lostPaths(before[key] ?? null, Object.hasOwn(after, key) ? after[key] : undefined, [...path, key]),
    );
  return same(before, after) ? [] : [pointer(path)];
}

export function isWithin(path: string, parents: readonly string[]): boolean {
  return parents.some((parent) => path === parent || path.startsWith(`${parent}/`));
}

/** Whether all keys that both have stand in the same order, all the way down. */
export function keepsOrder(before: Json, after: Json | undefined): boolean {
  if (isJsonArray(before) && isJsonArray(after)) return before.every((child, index) => keepsOrder(child, after[index]));
  if (!isJsonObject(before) || !isJsonObject(after)) return true;
  const kept = Object.keys(before).filter((key) => Object.hasOwn(after, key));
  const now = Object.keys(after).filter((key) => Object.hasOwn(before, key));
  return kept.join("\n") === now.join("\n") && kept.every((key) => keepsOrder(before[key] ?? null, after[key]));
}

/** -0 is 0 in JSON, and a list is not an object, however empty both are. */
function same(before: Json, after: Json | undefined): boolean {
  if (typeof before === "object" && before !== null) return JSON.stringify(before) === JSON.stringify(after);
  return before === after;
}

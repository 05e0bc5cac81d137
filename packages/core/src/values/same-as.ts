import { type Json, type JsonArray, type JsonObject, isJsonArray, isJsonObject } from "../json.ts";

/**
 * Whether a live value looks just like this one; a guide to what to capture on what. It does not look for what JSON
 * cannot carry: capture does.
 */
export function sameAs(live: unknown, base: Json | undefined): boolean {
  switch (typeof live) {
    case "string":
    case "number":
    case "boolean":
      return live === base;
    case "object":
      if (live === null || live === base) return live === base;
      if (Array.isArray(live)) return isJsonArray(base) && isSameArray(live, base);
      return isJsonObject(base) && isSameObject(live, base);
    default:
      return false;
  }
}

function isSameArray(live: readonly unknown[], base: JsonArray): boolean {
  if (live.length !== base.length) return false;
  for (let i = 0; i < live.length; i += 1) {
    if (!sameAs(live[i], base[i])) return false;
  }
  return true;
}

function isSameObject(live: object, base: JsonObject): boolean {
  let count = 0;
  for (const key in live) {
    if (!sameAs(Reflect.get(live, key), base[key])) return false;
    count += 1;
  }
  for (const _ in base) count -= 1;
  return count === 0;
}

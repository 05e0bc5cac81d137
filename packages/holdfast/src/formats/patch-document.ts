import { isJsonObject } from "../core/json.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { sameJson } from "./name-losses.ts";

/**
 * Carries a change over to the document that it was read from: `before` is what we made of the original, `after` the same
 * view of what we have now. What did not change keeps the original's spelling, place and order, fields that we do not know
 * included; what is gone from our view is gone.
 */
export function patchDocument(params: {
  readonly original: JsonObject;
  readonly before: JsonObject;
  readonly after: JsonObject;
}): JsonObject {
  const { original, before, after } = params;
  const patched = new Map<string, Json>(Object.entries(original));
  for (const [key, now] of Object.entries(after)) {
    const was = field(before, key);
    if (was !== undefined && sameJson(was, now)) continue;
    const old = field(original, key);
    patched.set(
      key,
      isJsonObject(old) && isJsonObject(was) && isJsonObject(now)
        ? patchDocument({ original: old, before: was, after: now })
        : now,
    );
  }
  for (const key of Object.keys(before)) if (!Object.hasOwn(after, key)) patched.delete(key);
  return Object.fromEntries(patched);
}

/** Own ones only: a document may have a key named `constructor`. */
export function field(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

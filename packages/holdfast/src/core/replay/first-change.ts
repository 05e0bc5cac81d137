import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json } from "../json.ts";
import { diffJson } from "../values/index.ts";

export interface FirstChange {
  /** JSON pointer. */
  readonly field: string;
  readonly expected: Json;
  readonly actual: Json;
}

/** Where two values part first, by the order of their keys; null: they are the same. */
export function firstChange(expected: Json, actual: Json): FirstChange | null {
  const [change] = diffJson({ from: expected, to: actual, limit: 1 }).changes;
  if (change === undefined) return null;
  return { field: change.path, expected: change.from ?? null, actual: change.to ?? null };
}

/** Without the keys named, at any depth. */
export function withoutKeys(value: Json, keys: ReadonlySet<string>): Json {
  if (isJsonArray(value)) return value.map((part) => withoutKeys(part, keys));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !keys.has(key))
      .map(([key, part]) => [key, withoutKeys(part, keys)]),
  );
}

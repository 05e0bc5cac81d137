import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";

/** A copy of `document` with `value` at the JSON pointer `path`, whether something was there or not. */
export function replaceAt(document: Json, path: string, value: Json): Json {
  const [, head, ...rest] = path.split("/");
  if (head === undefined) return value;
  const key = head.replaceAll("~1", "/").replaceAll("~0", "~");
  const below = rest.map((part) => `/${part}`).join("");
  if (isJsonArray(document)) return document.with(Number(key), replaceAt(document[Number(key)] ?? null, below, value));
  if (!isJsonObject(document)) throw new Error(`Nothing can be put at ${path}`);
  return { ...document, [key]: replaceAt(document[key] ?? null, below, value) };
}

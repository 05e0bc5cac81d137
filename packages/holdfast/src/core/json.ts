/** Everything Holdfast stores is plain JSON: no type tags, no revived classes, nothing that could run. */
export type JsonScalar = string | number | boolean | null;
export type Json = JsonScalar | JsonArray | JsonObject;
export type JsonArray = readonly Json[];
export interface JsonObject {
  readonly [key: string]: Json;
}

export type JsonContainer = JsonArray | JsonObject;

/** Array.isArray does not tell a readonly array from an object. */
export function isJsonArray(value: Json | undefined): value is JsonArray {
  return Array.isArray(value);
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Lower-case hex SHA-256. */
export type Digest = string;

/** Core is pure, so the hash is handed in. Must be SHA-256 over UTF-8 (for strings) or the bytes. */
export type Hasher = (data: string | Uint8Array) => Digest;

import type { JsonObject } from "../core/json.ts";

/** As the older tools write it: two spaces, keys in the order they have, no newline at the end. */
export function writeJson(document: JsonObject): Uint8Array {
  return UTF8.encode(JSON.stringify(document, null, 2));
}

const UTF8 = new TextEncoder();

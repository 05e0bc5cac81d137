import { parseChunk } from "./parse-chunk.ts";

/** Ids that a root or a chunk refers to directly, in order, with repeats. STORE_CORRUPT when the bytes do not parse. */
export function references(bytes: Uint8Array): readonly number[] {
  return parseChunk(bytes).refs;
}

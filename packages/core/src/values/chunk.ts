import type { Digest } from "../json.ts";

/**
 * A chunk is either canonical JSON text, a piece of a long string, or a page of a container whose entries are inline
 * values and references to other chunks. The first byte tells which.
 */
export interface Chunk {
  readonly digest: Digest;
  readonly bytes: Uint8Array;
}

/**
 * Takes chunks as they arise, children before parents. The same digest must always get the same id. An id is a
 * non-negative safe integer; small and ascending ids make small pages. The bytes are the sink's to keep.
 */
export interface ChunkSink {
  put(digest: Digest, bytes: Uint8Array): number;
}

/** `undefined` for an id it does not know. */
export interface ChunkSource {
  get(id: number): Chunk | undefined;
}

/*
 * The value layer: pure functions between live objects and chunks of bytes. capture takes a frozen copy that shares
 * what did not change; encode cuts that into content-addressed chunks, of which only the new ones cost anything;
 * decode, digestOf and references read them back and trust nothing in them.
 */
export { canonicalJson } from "./canonical-json.ts";
export { capture } from "./capture.ts";
export type { Chunk, ChunkSink, ChunkSource } from "./chunk.ts";
export { decode } from "./decode.ts";
export { diffJson } from "./diff-json.ts";
export type { JsonChange } from "./diff-json.ts";
export { digestOf } from "./digest-of.ts";
export { encode } from "./encode.ts";
export type { Encoded } from "./encode.ts";
export { createMemo } from "./memo.ts";
export type { Memo } from "./memo.ts";
export { references } from "./references.ts";
export { isPlainObject } from "./refusal.ts";

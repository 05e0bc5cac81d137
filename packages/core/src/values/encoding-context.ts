import type { Hasher, JsonContainer } from "../json.ts";
import type { ChunkSink } from "./chunk.ts";
import type { Encoding, Memo } from "./memo.ts";

export interface EncodingContext {
  readonly memo: Memo;
  readonly hasher: Hasher;
  readonly sink: ChunkSink;
  /** For a container that turns out longer than its lower bound told (many escapes): pages all the same. */
  readonly encodeLong: (value: JsonContainer) => Encoding;
}

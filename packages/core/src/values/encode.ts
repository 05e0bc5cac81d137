import type { Digest, Hasher, Json } from "../json.ts";
import { utf8 } from "./byte-writer.ts";
import { capturedJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { isCaptured } from "./captured.ts";
import { checkSize } from "./check-size.ts";
import type { ChunkSink } from "./chunk.ts";
import { encodeChild } from "./encode-child.ts";
import { encodeContainer, isExactlyLong, isSurelyLong } from "./encode-container.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { LEAF_MAX } from "./limits.ts";
import type { Encoding, Memo } from "./memo.ts";
import { referenceBytes } from "./page-format.ts";

export interface Encoded {
  /** A pure function of the value: not of its history, of the memo, nor of the ids the sink gave. */
  readonly digest: Digest;
  /** Same format as a chunk's bytes. A state of up to 4 KB is here whole, as canonical JSON. */
  readonly root: Uint8Array;
  /** Bytes of the whole value as canonical JSON. */
  readonly logicalBytes: number;
}

/** `value` should come from capture or decode; anything else is captured first. */
export function encode(params: {
  readonly value: Json;
  readonly memo: Memo;
  readonly hasher: Hasher;
  readonly sink: ChunkSink;
}): Encoded {
  const { memo, hasher, sink } = params;
  const context: EncodingContext = {
    memo,
    hasher,
    sink,
    encodeLong: (value) => encodeContainer(context, value, isExactlyLong),
  };
  const value =
    typeof params.value === "object" && params.value !== null && isCaptured(params.value)
      ? params.value
      : capture(params.value);
  if (typeof value === "object" && value !== null) {
    const known = memo.encoding(value);
    if (known !== undefined) return encodedAs(known);
    if (isSurelyLong(value)) return encodedAs(encodeContainer(context, value));
  } else if (typeof value === "string" && value.length > LEAF_MAX) {
    const encoding = encodeChild(context, value, undefined);
    if (typeof encoding !== "string") return encodedAs(rooted(context, encoding));
  }
  const text = capturedJson(value);
  if (typeof value === "object" && value !== null && text.length > LEAF_MAX)
    return encodedAs(context.encodeLong(value));
  const root = utf8(text);
  return { digest: hasher(root), root, logicalBytes: root.length };
}

/** A long string as a whole state: its chunk is stored once, not with every root. */
function rooted(context: EncodingContext, encoding: Encoding): Encoding {
  encoding.chunk.idIn(context.sink);
  return encoding;
}

function encodedAs(encoding: Encoding): Encoded {
  checkSize({ bytes: encoding.logical, entries: 0 });
  const { digest, place } = encoding.chunk;
  const root = typeof place === "number" ? referenceBytes(place) : place;
  return { digest, root, logicalBytes: encoding.logical };
}

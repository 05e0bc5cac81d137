import type { Json } from "../json.ts";
import { utf8 } from "./byte-writer.ts";
import { capturedJson } from "./canonical-json.ts";
import { encodeText } from "./encode-text.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { INLINE_BELOW, LEAF_MAX, TEXT_LEAF_MAX } from "./limits.ts";
import { Stored } from "./memo.ts";
import type { Encoding } from "./memo.ts";

/** A short value as its JSON text, a long one as a chunk. `texts` are long strings whose encoding is known. */
export function encodeChild(
  context: EncodingContext,
  value: Json,
  texts: ReadonlyMap<string, Encoding> | undefined,
): string | Encoding {
  if (typeof value === "string") {
    return value.length + 2 < INLINE_BELOW ? encodeShortString(context, value) : encodeString(context, value, texts);
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const known = context.memo.encodings.get(value);
  if (known !== undefined) return known;
  const text = capturedJson(value);
  if (text.length < INLINE_BELOW) return text;
  if (text.length > LEAF_MAX) return context.encodeLong(value);
  const encoding = encodeLeaf(context, text);
  context.memo.encodings.set(value, encoding);
  return encoding;
}

function encodeShortString(context: EncodingContext, value: string): string | Encoding {
  const text = JSON.stringify(value);
  return text.length < INLINE_BELOW ? text : encodeLeaf(context, text);
}

function encodeString(
  context: EncodingContext,
  value: string,
  texts: ReadonlyMap<string, Encoding> | undefined,
): Encoding {
  const known = texts?.get(value);
  if (known !== undefined) return known;
  return value.length > TEXT_LEAF_MAX ? encodeText(context, value) : encodeLeaf(context, JSON.stringify(value));
}

function encodeLeaf(context: EncodingContext, text: string): Encoding {
  const bytes = utf8(text);
  return { chunk: new Stored(context.hasher(bytes), bytes), logical: bytes.length, levels: [] };
}

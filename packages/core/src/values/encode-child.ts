import type { Json, JsonContainer } from "../json.ts";
import { utf8 } from "./byte-writer.ts";
import { capturedJson } from "./canonical-json.ts";
import { encodeText } from "./encode-text.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { INLINE_BELOW, LEAF_MAX, TEXT_LEAF_MAX } from "./limits.ts";
import { type Texts, encodingOf } from "./long-texts.ts";
import { isFramed } from "./lower-bound.ts";
import { type Encoding, Stored } from "./memo.ts";

/** A short value as its JSON text, a long one as a chunk. `texts` are long strings whose encoding is known. */
export function encodeChild(context: EncodingContext, value: Json, texts: Texts | undefined): string | Encoding {
  if (typeof value === "string") {
    return value.length + 2 < INLINE_BELOW ? encodeShortString(context, value) : encodeString(context, value, texts);
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const known = context.memo.encoding(value);
  if (known !== undefined) return known;
  const text = capturedJson(value);
  return text.length > LEAF_MAX ? context.encodeLong(value) : encodeShort(context, value, text);
}

/** An element of an array: one chunk also where it is a long text in a frame. */
export function encodeElement(context: EncodingContext, value: Json, texts: Texts | undefined): string | Encoding {
  if (typeof value !== "object" || value === null) return encodeChild(context, value, texts);
  const { memo } = context;
  const framed = memo.element(value);
  if (framed !== undefined) return framed;
  const known = memo.encoding(value);
  // As a member of an object it may have become pages.
  if (known !== undefined && (known.levels.length === 0 || !isFramed(value))) return known;
  const text = capturedJson(value);
  if (text.length <= LEAF_MAX) return encodeShort(context, value, text);
  if (!isFramed(value)) return context.encodeLong(value);
  const encoding = encodeLeaf(context, text);
  memo.setElement(value, encoding);
  return encoding;
}

function encodeShort(context: EncodingContext, value: JsonContainer, text: string): string | Encoding {
  if (text.length < INLINE_BELOW) return text;
  const encoding = encodeLeaf(context, text);
  context.memo.setEncoding(value, encoding);
  return encoding;
}

function encodeShortString(context: EncodingContext, value: string): string | Encoding {
  const text = JSON.stringify(value);
  return text.length < INLINE_BELOW ? text : encodeLeaf(context, text);
}

function encodeString(context: EncodingContext, value: string, texts: Texts | undefined): Encoding {
  const known = encodingOf(texts, value);
  if (known !== undefined) return known;
  return value.length > TEXT_LEAF_MAX ? encodeText(context, value) : encodeLeaf(context, JSON.stringify(value));
}

function encodeLeaf(context: EncodingContext, text: string): Encoding {
  const bytes = utf8(text);
  return { chunk: new Stored(context.hasher(bytes), bytes), logical: bytes.length, levels: [] };
}

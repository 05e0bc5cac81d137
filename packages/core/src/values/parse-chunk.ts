import { ByteReader } from "./byte-reader.ts";
import { corrupt } from "./corrupt.ts";
import { TAGS, type UpperTag } from "./page-format.ts";

export type ParsedChunk =
  | { readonly kind: "json"; readonly refs: readonly [] }
  | { readonly kind: "piece"; readonly refs: readonly [] }
  | ParsedArray
  | ParsedObject
  | ParsedUpper
  | { readonly kind: "reference"; readonly refs: readonly number[] };

export interface ParsedArray {
  readonly kind: "array";
  readonly text: string;
  readonly textBytes: number;
  readonly runs: readonly number[];
  readonly refs: readonly number[];
}

export interface ParsedObject {
  readonly kind: "object";
  readonly text: string;
  readonly keys: string;
  readonly textBytes: number;
  readonly refs: readonly number[];
}

export interface ParsedUpper {
  readonly kind: "upper";
  readonly tag: UpperTag;
  readonly level: number;
  readonly refs: readonly number[];
}

/** Checks the form of a chunk's bytes. JSON inside it is not parsed yet. */
export function parseChunk(bytes: Uint8Array): ParsedChunk {
  const tag = bytes[0];
  if (tag === undefined) throw corrupt("it is empty");
  if (tag >= 0x20) return { kind: "json", refs: [] };
  switch (tag) {
    case TAGS.array:
      return parseArray(new ByteReader(bytes, 1));
    case TAGS.object:
      return parseObject(new ByteReader(bytes, 1));
    case TAGS.arrays:
    case TAGS.objects:
    case TAGS.pieces:
      return parseUpper(tag, new ByteReader(bytes, 1));
    case TAGS.piece:
      return { kind: "piece", refs: [] };
    case TAGS.reference: {
      const refs = new ByteReader(bytes, 1).ids();
      if (refs.length !== 1) throw corrupt("it should refer to one chunk");
      return { kind: "reference", refs };
    }
    default:
      throw corrupt(`it begins with the unknown tag ${tag}`);
  }
}

function parseArray(reader: ByteReader): ParsedArray {
  const { text, bytes: textBytes } = reader.sizedText();
  const runs: number[] = [];
  let children = 0;
  for (let left = reader.varint(); left > 0; left -= 1) {
    const inline = reader.varint();
    const count = reader.varint();
    if (count === 0) throw corrupt("a run in it is empty");
    runs.push(inline, count);
    children += count;
  }
  const refs = reader.ids();
  if (refs.length !== children) throw corrupt("its runs and its references differ in number");
  return { kind: "array", text, textBytes, runs, refs };
}

function parseObject(reader: ByteReader): ParsedObject {
  const inline = reader.sizedText();
  const keys = reader.sizedText();
  const refs = reader.ids();
  return { kind: "object", text: inline.text, keys: keys.text, textBytes: inline.bytes + keys.bytes, refs };
}

function parseUpper(tag: UpperTag, reader: ByteReader): ParsedUpper {
  const level = reader.varint();
  const refs = reader.ids();
  if (level === 0 || level > MAX_LEVEL || refs.length === 0) throw corrupt("its level or its references are missing");
  return { kind: "upper", tag, level, refs };
}

/** A page holds two entries at least, so no honest tree is higher. */
const MAX_LEVEL = 32;

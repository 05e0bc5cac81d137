import { ByteWriter } from "./byte-writer.ts";

/**
 * First bytes of chunks. JSON text begins with a printable character, so it needs no tag, and its digest is the plain
 * hash of the text. Part of the stored format and of every digest: never to be renumbered.
 */
export const TAGS = {
  array: 1,
  object: 2,
  arrays: 3,
  objects: 4,
  piece: 5,
  pieces: 6,
  reference: 7,
} as const;

export type UpperTag = typeof TAGS.arrays | typeof TAGS.objects | typeof TAGS.pieces;

/**
 * What is hashed of a page names its children by digest, while its bytes name them by their local ids, which are
 * short: the digest stays a function of the value alone. JSON text ends itself, `@` and `#` never begin it, so the
 * pre-image can be read back in one way only.
 *
 * `text` holds the inline values as one JSON array (or the inline pairs as one JSON object), "" for none. `runs` are
 * pairs: so many inline values, then so many children; inline values at the end are in no pair.
 */
export function arrayPreimage(text: string, runs: readonly number[], digests: readonly string[]): string {
  let image = String.fromCharCode(TAGS.array) + text;
  let next = 0;
  for (let i = 0; i < runs.length; i += 2) {
    const end = next + (runs[i + 1] ?? 0);
    image += `@${runs[i] ?? 0}`;
    for (; next < end; next += 1) image += `#${digests[next] ?? ""}`;
  }
  return image;
}

export function objectPreimage(text: string, keys: string, digests: readonly string[]): string {
  return `${String.fromCharCode(TAGS.object)}${text}${keys}${hashed(digests)}`;
}

export function upperPreimage(tag: UpperTag, level: number, digests: readonly string[]): string {
  return `${String.fromCharCode(tag)}${level}${hashed(digests)}`;
}

function hashed(digests: readonly string[]): string {
  let image = "";
  for (const digest of digests) image += `#${digest}`;
  return image;
}

interface PageBytes {
  readonly bytes: Uint8Array;
  /** Of the texts alone. */
  readonly textBytes: number;
}

export function arrayBytes(text: string, runs: readonly number[], ids: readonly number[]): PageBytes {
  const writer = new ByteWriter();
  writer.byte(TAGS.array);
  const textBytes = writer.sizedText(text);
  writer.varint(runs.length / 2);
  for (const run of runs) writer.varint(run);
  writer.ids(ids);
  return { bytes: writer.take(), textBytes };
}

/** `keys` are those of the children, as one JSON array. */
export function objectBytes(text: string, keys: string, ids: readonly number[]): PageBytes {
  const writer = new ByteWriter();
  writer.byte(TAGS.object);
  const textBytes = writer.sizedText(text) + writer.sizedText(keys);
  writer.ids(ids);
  return { bytes: writer.take(), textBytes };
}

export function upperBytes(tag: UpperTag, level: number, ids: readonly number[]): Uint8Array {
  const writer = new ByteWriter();
  writer.byte(tag);
  writer.varint(level);
  writer.ids(ids);
  return writer.take();
}

export function pieceBytes(text: string): Uint8Array {
  const writer = new ByteWriter();
  writer.byte(TAGS.piece);
  writer.text(text);
  return writer.take();
}

export function referenceBytes(id: number): Uint8Array {
  const writer = new ByteWriter();
  writer.byte(TAGS.reference);
  writer.ids([id]);
  return writer.take();
}

import zlib from "node:zlib";
import { toHex } from "../columns.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "@holdfast/core/json";
import type { Chunk } from "@holdfast/core/values/chunk";

/** Chunks one after the other, compressed as one, with a directory of digest and end for each. */
export interface Packed {
  readonly codec: number;
  /** At which compressing was tried last. */
  readonly level: number;
  /** Bytes before compression. */
  readonly raw: number;
  readonly slots: Uint8Array;
  readonly body: Uint8Array;
}

/** The numbers are on disk. */
export const CODEC = { raw: 0, zstd: 1 } as const;

/** Level of packs that are compressed while somebody waits, of bundles, and of what is old. */
export const SAVE_LEVEL = 1;
export const BUNDLE_LEVEL = 3;
export const SWEEP_LEVEL = 12;
/** Nobody has tried yet. */
const NO_LEVEL = 0;

/** Below this there is little to win and a call to the compressor to lose. */
const WORTH_COMPRESSING = 512;
const SLOT_BYTES = 36;

/** Of a slot whose chunk is dead: it can be found by no digest. */
export const NO_DIGEST: Digest = "0".repeat(64);

export function packChunks(chunks: readonly Chunk[], level: number): Packed {
  const slots = Buffer.allocUnsafe(chunks.length * SLOT_BYTES);
  const parts: Uint8Array[] = [];
  let end = 0;
  for (const [i, { digest, bytes }] of chunks.entries()) {
    end += bytes.length;
    parts.push(bytes);
    slots.write(digest, i * SLOT_BYTES, "hex");
    slots.writeUInt32LE(end, i * SLOT_BYTES + 32);
  }
  const raw = Buffer.concat(parts, end);
  if (raw.length >= WORTH_COMPRESSING) {
    const body = zlib.zstdCompressSync(raw, { params: { [zlib.constants.ZSTD_c_compressionLevel]: level } });
    if (body.length < raw.length * 0.9) return { codec: CODEC.zstd, level, raw: end, slots, body };
  }
  return { codec: CODEC.raw, level, raw: end, slots, body: raw };
}

export function unpackChunks(packed: Packed): readonly Chunk[] {
  const body = decompress(packed);
  const chunks: Chunk[] = [];
  let start = 0;
  for (const { digest, end } of readSlots(packed.slots)) {
    if (end < start || end > body.length) throw damaged("its directory points outside it");
    chunks.push({ digest, bytes: body.subarray(start, end) });
    start = end;
  }
  return chunks;
}

export function readSlots(slots: Uint8Array): readonly { readonly digest: Digest; readonly end: number }[] {
  if (slots.length % SLOT_BYTES !== 0) throw damaged("its directory has a broken length");
  const view = Buffer.from(slots.buffer, slots.byteOffset, slots.byteLength);
  const found: { digest: Digest; end: number }[] = [];
  for (let at = 0; at < view.length; at += SLOT_BYTES) {
    found.push({ digest: toHex(view.subarray(at, at + 32)), end: view.readUInt32LE(at + 32) });
  }
  return found;
}

/** The part of a directory that speaks of some slots. Their ends count from the beginning of the whole. */
export function slotsBetween(slots: Uint8Array, first: number, count: number): Uint8Array {
  return slots.subarray(first * SLOT_BYTES, (first + count) * SLOT_BYTES);
}

/** The directory without the digests of some slots. */
export function bury(slots: Uint8Array, dead: readonly number[]): Buffer {
  const copy = Buffer.from(slots);
  for (const slot of dead) copy.fill(0, slot * SLOT_BYTES, slot * SLOT_BYTES + 32);
  return copy;
}

const RECORD = 1;
const HEADER_BYTES = 12;

/** A pack as one piece, for the row of the checkpoint that brought it. */
export function toRecord({ codec, level, raw, slots, body }: Packed): Buffer {
  const record = Buffer.allocUnsafe(HEADER_BYTES + slots.length + body.length);
  record.writeUInt8(RECORD, 0);
  record.writeUInt8(codec, 1);
  record.writeUInt8(level, 2);
  record.writeUInt8(0, 3);
  record.writeUInt32LE(raw, 4);
  record.writeUInt32LE(slots.length, 8);
  record.set(slots, HEADER_BYTES);
  record.set(body, HEADER_BYTES + slots.length);
  return record;
}

/**
 * The record of chunks as they are, in one pass. It lies in `room` if that is large enough, and is valid until that is
 * used again.
 */
export function rawRecord(chunks: readonly Chunk[], room: Buffer): Buffer {
  const start = HEADER_BYTES + chunks.length * SLOT_BYTES;
  let length = start;
  for (const { bytes } of chunks) length += bytes.length;
  const record = room.length < length ? Buffer.allocUnsafe(length) : room.subarray(0, length);
  record.writeUInt8(RECORD, 0);
  record.writeUInt8(CODEC.raw, 1);
  record.writeUInt8(NO_LEVEL, 2);
  record.writeUInt8(0, 3);
  record.writeUInt32LE(length - start, 4);
  record.writeUInt32LE(start - HEADER_BYTES, 8);
  let slot = HEADER_BYTES;
  let end = start;
  for (const { digest, bytes } of chunks) {
    record.set(bytes, end);
    end += bytes.length;
    record.write(digest, slot, "hex");
    record.writeUInt32LE(end - start, slot + 32);
    slot += SLOT_BYTES;
  }
  return record;
}

/** Whether it is a record that is to be compressed. */
export function isRawRecord(bytes: Uint8Array): boolean {
  return isRecord(bytes) && bytes[1] === CODEC.raw && bytes[2] === NO_LEVEL;
}

export function isRecord(bytes: Uint8Array): boolean {
  return bytes[0] === RECORD && bytes.length >= HEADER_BYTES;
}

export function fromRecord(bytes: Uint8Array): Packed {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const slotsEnd = HEADER_BYTES + view.readUInt32LE(8);
  if (slotsEnd > view.length) throw damaged("its directory is cut short");
  return {
    codec: view.readUInt8(1),
    level: view.readUInt8(2),
    raw: view.readUInt32LE(4),
    slots: view.subarray(HEADER_BYTES, slotsEnd),
    body: view.subarray(slotsEnd),
  };
}

function decompress(packed: Packed): Uint8Array {
  if (packed.codec === CODEC.raw) return checkLength(packed.body, packed.raw);
  if (packed.codec !== CODEC.zstd) throw damaged(`its codec ${packed.codec} is unknown`);
  try {
    // The limit keeps a forged frame from filling memory.
    return checkLength(zlib.zstdDecompressSync(packed.body, { maxOutputLength: Math.max(packed.raw, 1) }), packed.raw);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

function checkLength(bytes: Uint8Array, expected: number): Uint8Array {
  if (bytes.length !== expected) throw damaged(`it has ${bytes.length} bytes instead of ${expected}`);
  return bytes;
}

function damaged(why: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `A pack of chunks cannot be read: ${why}`,
    hint: "Run `holdfast verify` to see which checkpoints are still whole.",
  });
}

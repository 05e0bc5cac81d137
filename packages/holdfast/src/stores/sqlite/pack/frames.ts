import { toHex } from "../columns.ts";
import type { CheckpointColumns, LogPlace, LogRow } from "../log.ts";
import { isEntryKind, isTrigger } from "../vocabulary.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "@holdfast/core/json";

/**
 * Entries that were committed together, as one value: a row of the log for each would cost a group of savers more than
 * all else that they do. Each is a frame: what the columns of its own row would say, then its body.
 */
export interface Frames {
  /** Whether an entry of so many characters still fits in. An empty one has room for any that is not long. */
  hasRoom(length: number): boolean;
  /** Writes a body where that of the next entry will lie: what is hashed there need not be written twice. */
  stage(body: string): Uint8Array;
  add(row: LogRow, body: string | Uint8Array): void;
  /** How many there are, and how many of them are checkpoints. */
  count(): number;
  checkpoints(): number;
  /** Valid until the next `clear`. */
  bytes(): Uint8Array;
  clear(): void;
}

/** One entry as it lies there. */
export interface Frame {
  readonly body: Buffer;
  readonly head: Buffer;
}

export interface Framed {
  readonly row: LogRow;
  /** Text of an ordinary entry, root of a checkpoint. */
  readonly body: string | Uint8Array;
}

/** Who wants one entry reads them all, so a row is kept short. */
const FULL = 16 << 10;
const LONG = 6 << 10;
/** At most what a frame's numbers and digests take. */
const HEAD_BYTES = 256;
/** Of the frame, and of the body, which comes first in it. */
const LENGTHS_BYTES = 4;
/** A character takes three bytes at most. */
const ROOM = FULL + HEAD_BYTES + 3 * LONG;

/** Characters of a frame's texts, its body included. */
export function frameLength({ kind, checkpoint: c }: LogRow, body: string | Uint8Array): number {
  if (c === null) return body.length + kind.length;
  const { stage, name, tree, origin } = c;
  return body.length + stage.length + (name?.length ?? 0) + (tree?.length ?? 0) + (origin?.length ?? 0);
}

/** Too long for a frame: it wants a row of its own. */
export function isLong(length: number): boolean {
  return length > LONG;
}

/** The first byte tells it from everything else that a row's body can be. */
const FRAMES = 3;

/** Beyond it JavaScript has no date. */
const LAST_MOMENT = 8.64e15;

const CHECKPOINT = 1;
const PARENT = 2;
const NAME = 4;
const SCORE = 8;
const TREE = 16;
const ORIGIN = 32;

export function createFrames(): Frames {
  const buffer = Buffer.allocUnsafeSlow(ROOM);
  let at = 1;
  let count = 0;
  let checkpoints = 0;
  let staged: Uint8Array | undefined;
  buffer[0] = FRAMES;

  function number(value: number): void {
    at = buffer.writeDoubleLE(value, at);
  }

  function natural(value: number): void {
    if (value < 0x80) {
      buffer[at++] = value;
      return;
    }
    let left = value;
    while (left >= 0x80) {
      buffer[at++] = (left % 0x80) | 0x80;
      left = Math.floor(left / 0x80);
    }
    buffer[at++] = left;
  }

  function digest(value: Digest): void {
    at += buffer.write(value, at, 32, "hex");
  }

  function text(value: string): void {
    const length = buffer.write(value, at + 2, "utf8");
    buffer.writeUInt16LE(length, at);
    at += 2 + length;
  }

  /** Bytes that it takes. */
  function content(body: string | Uint8Array, start: number): number {
    if (body === staged) return staged.length;
    if (typeof body === "string") return buffer.write(body, start, "utf8");
    buffer.set(body, start);
    return body.length;
  }

  function checkpoint(c: CheckpointColumns): void {
    text(c.trigger);
    text(c.stage);
    number(c.iteration);
    natural(c.logical);
    natural(c.added);
    digest(c.root);
    if (c.parent !== null) digest(c.parent);
    if (c.name !== null) text(c.name);
    if (c.score !== null) number(c.score);
    if (c.tree !== null) text(c.tree);
    if (c.origin !== null) text(c.origin);
    checkpoints += 1;
  }

  return {
    hasRoom: (length) => count === 0 || at + length <= FULL,
    stage(body) {
      const start = at + LENGTHS_BYTES;
      staged = buffer.subarray(start, start + buffer.write(body, start, "utf8"));
      return staged;
    },
    add(row, body) {
      const c = row.checkpoint;
      const start = at;
      at += LENGTHS_BYTES;
      const length = content(body, at);
      at += length;
      buffer[at++] = c === null ? 0 : flagsOf(c);
      natural(row.run);
      natural(row.entry);
      natural(c === null ? 0 : c.sequence);
      natural(row.epoch);
      number(row.at);
      digest(row.hash);
      if (c === null) text(row.kind);
      else checkpoint(c);
      buffer.writeUInt16LE(at - start - LENGTHS_BYTES, start);
      buffer.writeUInt16LE(length, start + 2);
      staged = undefined;
      count += 1;
    },
    count: () => count,
    checkpoints: () => checkpoints,
    bytes: () => buffer.subarray(0, at),
    clear() {
      at = 1;
      count = 0;
      checkpoints = 0;
      staged = undefined;
    },
  };
}

function flagsOf(c: CheckpointColumns): number {
  return (
    CHECKPOINT |
    (c.parent === null ? 0 : PARENT) |
    (c.name === null ? 0 : NAME) |
    (c.score === null ? 0 : SCORE) |
    (c.tree === null ? 0 : TREE) |
    (c.origin === null ? 0 : ORIGIN)
  );
}

/**
 * Each frame by itself, so that damage in one is not the others'. STORE_CORRUPT when the lengths do not add up to as many
 * as there should be.
 */
export function splitFrames(bytes: Uint8Array, params: { readonly first: number; readonly count: number }): Frame[] {
  const { first, count } = params;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view[0] !== FRAMES) throw damaged(first, "they begin with something else");
  const found: Frame[] = [];
  let at = 1;
  while (at + LENGTHS_BYTES <= view.length) {
    const start = at + LENGTHS_BYTES;
    const middle = start + view.readUInt16LE(at + 2);
    at = start + view.readUInt16LE(at);
    found.push({ body: view.subarray(start, middle), head: view.subarray(middle, at) });
  }
  if (at !== view.length || found.length !== count) throw damaged(first, "their lengths do not add up");
  return found;
}

export function readPlace({ head }: Frame, pos: number): LogPlace {
  return reading(head, pos, (reader) => {
    const isCheckpoint = (reader.byte() & CHECKPOINT) !== 0;
    const [run, entry, sequence] = [reader.natural(), reader.natural(), reader.natural()];
    return { pos, run, entry, sequence: isCheckpoint ? sequence : null };
  });
}

export function readFrame({ body, head }: Frame, pos: number): Framed {
  return reading(head, pos, (reader) => {
    const flags = reader.byte();
    const [run, entry, sequence, epoch] = [reader.natural(), reader.natural(), reader.natural(), reader.natural()];
    const at = reader.number();
    if (Math.abs(at) > LAST_MOMENT || !Number.isInteger(at)) throw damaged(pos, `${at} is no time`);
    const hash = reader.digest();
    if (!isPossible(flags, sequence)) throw damaged(pos, "it says what no entry can");
    if ((flags & CHECKPOINT) === 0) {
      const kind = reader.text();
      if (!isEntryKind(kind)) throw damaged(pos, `${JSON.stringify(kind)} is no kind of entry`);
      const row: LogRow = { pos, run, entry, kind, at, epoch, hash, checkpoint: null };
      return { row, body: body.toString() };
    }
    const checkpoint = readCheckpoint(reader, flags, sequence, pos);
    return { row: { pos, run, entry, kind: "checkpoint", at, epoch, hash, checkpoint }, body };
  });
}

/** What the hash does not cover because it follows from the rest must follow from it, or a flipped bit would go unseen. */
function isPossible(flags: number, sequence: number): boolean {
  if ((flags & CHECKPOINT) === 0) return flags === 0 && sequence === 0;
  return flags < 2 * ORIGIN && sequence > 0;
}

function reading<T>(head: Buffer, pos: number, read: (reader: Reader) => T): T {
  try {
    return read(createReader(head));
  } catch (error) {
    if (error instanceof RangeError) throw damaged(pos, "something is cut short");
    throw error;
  }
}

function readCheckpoint(reader: Reader, flags: number, sequence: number, pos: number): CheckpointColumns {
  const trigger = reader.text();
  if (!isTrigger(trigger)) throw damaged(pos, `${JSON.stringify(trigger)} is no trigger`);
  const stage = reader.text();
  const iteration = reader.number();
  const logical = reader.natural();
  const added = reader.natural();
  const root = reader.digest();
  const parent = (flags & PARENT) === 0 ? null : reader.digest();
  const name = (flags & NAME) === 0 ? null : reader.text();
  const score = (flags & SCORE) === 0 ? null : reader.number();
  const tree = (flags & TREE) === 0 ? null : reader.text();
  const origin = (flags & ORIGIN) === 0 ? null : reader.text();
  return { sequence, trigger, name, stage, iteration, score, tree, origin, parent, root, logical, added };
}

interface Reader {
  byte(): number;
  natural(): number;
  number(): number;
  digest(): Digest;
  text(): string;
}

/** Throws RangeError beyond the end. */
function createReader(view: Buffer): Reader {
  let at = 0;

  function take(length: number): Buffer {
    if (at + length > view.length) throw new RangeError("beyond the end");
    at += length;
    return view.subarray(at - length, at);
  }

  return {
    byte: () => take(1).readUInt8(),
    natural() {
      let value = 0;
      for (let scale = 1; ; scale *= 0x80) {
        const byte = take(1).readUInt8();
        value += (byte & 0x7f) * scale;
        if (!Number.isSafeInteger(value)) throw new RangeError("beyond all numbers");
        if (byte < 0x80) return value;
      }
    },
    number: () => take(8).readDoubleLE(),
    digest: () => toHex(take(32)),
    text: () => take(take(2).readUInt16LE()).toString(),
  };
}

function damaged(pos: number, why: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The entries at position ${pos} of the log cannot be read: ${why}`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { pos },
  });
}

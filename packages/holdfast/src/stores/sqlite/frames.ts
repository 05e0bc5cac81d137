import { toHex } from "./columns.ts";
import type { CheckpointColumns, LogPlace, LogRow } from "./log.ts";
import { isEntryKind, isTrigger } from "./vocabulary.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Digest } from "../../core/json.ts";

/**
 * Entries that were committed together, as one value: a row of the log for each would cost a group of savers more than
 * all else that they do. Each is a frame: what the columns of its own row would say, then its body.
 */
export interface Frames {
  /** "full": begin anew and add it again. "long": it wants a row of its own. */
  add(row: LogRow, body: string | Uint8Array): "added" | "full" | "long";
  /** How many there are, and how many of them are checkpoints. */
  count(): number;
  checkpoints(): number;
  /** Valid until the next `clear`. */
  bytes(): Uint8Array;
  clear(): void;
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
const LENGTH_BYTES = 2;
/** A character takes three bytes at most. */
const ROOM = FULL + HEAD_BYTES + 3 * LONG;

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
  buffer[0] = FRAMES;

  function number(value: number): void {
    at = buffer.writeDoubleLE(value, at);
  }

  function natural(value: number): void {
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

  function content(body: string | Uint8Array): void {
    if (typeof body === "string") at += buffer.write(body, at, "utf8");
    else {
      buffer.set(body, at);
      at += body.length;
    }
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
    add(row, body) {
      const c = row.checkpoint;
      const length = body.length + (c === null ? row.kind.length : textLength(c));
      if (length > LONG) return "long";
      if (at + length > FULL && count > 0) return "full";
      const start = at;
      at += LENGTH_BYTES;
      buffer[at++] = c === null ? 0 : flagsOf(c);
      natural(row.run);
      natural(row.entry);
      natural(c === null ? 0 : c.sequence);
      natural(row.epoch);
      number(row.at);
      digest(row.hash);
      if (c === null) text(row.kind);
      else checkpoint(c);
      content(body);
      buffer.writeUInt16LE(at - start - LENGTH_BYTES, start);
      count += 1;
      return "added";
    },
    count: () => count,
    checkpoints: () => checkpoints,
    bytes: () => buffer.subarray(0, at),
    clear() {
      at = 1;
      count = 0;
      checkpoints = 0;
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

function textLength(c: CheckpointColumns): number {
  return c.stage.length + (c.name?.length ?? 0) + (c.tree?.length ?? 0) + (c.origin?.length ?? 0);
}

/**
 * Each frame by itself, so that damage in one is not the others'. STORE_CORRUPT when the lengths do not add up to as many
 * as there should be.
 */
export function splitFrames(bytes: Uint8Array, params: { readonly first: number; readonly count: number }): Buffer[] {
  const { first, count } = params;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view[0] !== FRAMES) throw damaged(first, "they begin with something else");
  const found: Buffer[] = [];
  let at = 1;
  while (at + LENGTH_BYTES <= view.length) {
    const start = at + LENGTH_BYTES;
    at = start + view.readUInt16LE(at);
    found.push(view.subarray(start, at));
  }
  if (at !== view.length || found.length !== count) throw damaged(first, "their lengths do not add up");
  return found;
}

export function readPlace(frame: Buffer, pos: number): LogPlace {
  return reading(frame, pos, (reader) => {
    const isCheckpoint = (reader.byte() & CHECKPOINT) !== 0;
    const [run, entry, sequence] = [reader.natural(), reader.natural(), reader.natural()];
    return { pos, run, entry, sequence: isCheckpoint ? sequence : null };
  });
}

export function readFrame(frame: Buffer, pos: number): Framed {
  return reading(frame, pos, (reader) => {
    const flags = reader.byte();
    const [run, entry, sequence, epoch] = [reader.natural(), reader.natural(), reader.natural(), reader.natural()];
    const at = reader.number();
    if (Math.abs(at) > LAST_MOMENT || !Number.isInteger(at)) throw damaged(pos, `${at} is no time`);
    const hash = reader.digest();
    if ((flags & CHECKPOINT) === 0) {
      const kind = reader.text();
      if (!isEntryKind(kind)) throw damaged(pos, `${JSON.stringify(kind)} is no kind of entry`);
      const row: LogRow = { pos, run, entry, kind, at, epoch, hash, checkpoint: null };
      return { row, body: reader.rest().toString() };
    }
    const checkpoint = readCheckpoint(reader, flags, sequence, pos);
    return { row: { pos, run, entry, kind: "checkpoint", at, epoch, hash, checkpoint }, body: reader.rest() };
  });
}

function reading<T>(frame: Buffer, pos: number, read: (reader: Reader) => T): T {
  try {
    return read(createReader(frame));
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
  rest(): Buffer;
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
    rest: () => take(view.length - at),
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

import { xxh32 } from "./xxh32.ts";

export type Lz4Result =
  | { readonly kind: "read"; readonly bytes: Uint8Array }
  | { readonly kind: "refused"; readonly why: string };

export function isLz4Frame(bytes: Uint8Array): boolean {
  return bytes.length >= 4 && word(bytes, 0) === MAGIC;
}

/**
 * All frames of a file, one after another, as `lz4` writes them. Nothing is allocated by what a header claims: memory follows what is really
 * there, and never passes `maxBytes`. Dictionaries are refused: nobody could say which.
 */
export function decodeLz4(bytes: Uint8Array, maxBytes: number): Lz4Result {
  try {
    const output = new Output(maxBytes);
    let at = 0;
    while (at < bytes.length) at = decodeFrame(bytes, at, output);
    return { kind: "read", bytes: output.bytes() };
  } catch (error) {
    if (error instanceof BadFrame) return { kind: "refused", why: error.message };
    throw error;
  }
}

class BadFrame extends Error {}

const MAGIC = 0x184d2204;
const SKIPPABLE = 0x184d2a5;
const BLOCK_SIZES: Readonly<Record<number, number>> = { 4: 65_536, 5: 262_144, 6: 1_048_576, 7: 4_194_304 };
const WINDOW = 65_536;

interface Header {
  readonly independent: boolean;
  readonly blockChecksum: boolean;
  readonly contentChecksum: boolean;
  readonly contentSize: bigint | null;
  readonly blockSize: number;
  /** Where the blocks begin. */
  readonly end: number;
}

function decodeFrame(bytes: Uint8Array, start: number, output: Output): number {
  need(bytes, start, 4);
  const magic = word(bytes, start);
  if (magic >>> 4 === SKIPPABLE) {
    need(bytes, start, 8);
    const length = word(bytes, start + 4);
    need(bytes, start + 8, length);
    return start + 8 + length;
  }
  if (magic !== MAGIC) throw new BadFrame("what follows an LZ4 frame is not another one");
  const header = readHeader(bytes, start + 4);
  const begin = output.length;
  let at = header.end;
  for (;;) {
    need(bytes, at, 4);
    const size = word(bytes, at);
    at += 4;
    if (size === 0) break;
    const stored = size >>> 31 === 1;
    const length = size & 0x7fffffff;
    if (length > header.blockSize) throw new BadFrame("an LZ4 block is larger than its frame allows");
    need(bytes, at, length);
    const block = bytes.subarray(at, at + length);
    at += length;
    if (header.blockChecksum) {
      need(bytes, at, 4);
      if (word(bytes, at) !== xxh32(block)) throw new BadFrame("an LZ4 block does not match its checksum");
      at += 4;
    }
    const before = output.length;
    if (stored) output.append(block);
    else decodeBlock(block, output, Math.max(header.independent ? before : begin, before - WINDOW));
    if (output.length - before > header.blockSize) throw new BadFrame("an LZ4 block holds more than its frame allows");
  }
  if (header.contentSize !== null && BigInt(output.length - begin) !== header.contentSize)
    throw new BadFrame("the LZ4 frame does not hold as much as it says");
  if (!header.contentChecksum) return at;
  need(bytes, at, 4);
  if (word(bytes, at) !== xxh32(output.since(begin)))
    throw new BadFrame("the content of the LZ4 frame does not match its checksum");
  return at + 4;
}

function readHeader(bytes: Uint8Array, start: number): Header {
  need(bytes, start, 3);
  const flags = byte(bytes, start);
  const blockSize = BLOCK_SIZES[(byte(bytes, start + 1) >>> 4) & 7];
  if (flags >>> 6 !== 1 || blockSize === undefined) throw new BadFrame("its LZ4 frame is of an unknown kind");
  if ((flags & 1) !== 0) throw new BadFrame("its LZ4 frame needs a dictionary");
  const sized = (flags & 8) !== 0;
  const end = start + (sized ? 10 : 2);
  need(bytes, start, end - start + 1);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (((xxh32(bytes.subarray(start, end)) >>> 8) & 255) !== byte(bytes, end))
    throw new BadFrame("the header of its LZ4 frame does not match its checksum");
  return {
    independent: (flags & 32) !== 0,
    blockChecksum: (flags & 16) !== 0,
    contentChecksum: (flags & 4) !== 0,
    contentSize: sized ? view.getBigUint64(start + 2, true) : null,
    blockSize,
    end: end + 1,
  };
}

/** `earliest`: a match may not reach before it. */
function decodeBlock(block: Uint8Array, output: Output, earliest: number): void {
  let at = 0;
  const lengthFrom = (nibble: number): number => {
    let length = nibble;
    if (nibble !== 15) return length;
    for (;;) {
      const more = byte(block, at);
      at += 1;
      length += more;
      if (more !== 255) return length;
    }
  };
  while (at < block.length) {
    const token = byte(block, at);
    at += 1;
    const literals = lengthFrom(token >>> 4);
    need(block, at, literals);
    output.append(block.subarray(at, at + literals));
    at += literals;
    if (at === block.length) return;
    const offset = byte(block, at) | (byte(block, at + 1) << 8);
    at += 2;
    const length = lengthFrom(token & 15) + 4;
    if (offset === 0 || output.length - offset < earliest)
      throw new BadFrame("an LZ4 block refers to something before its beginning");
    output.repeat(offset, length);
  }
}

/** Grows by doubling up to the bound. */
class Output {
  length = 0;
  #buffer = new Uint8Array(WINDOW);
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** A match may overlap what it writes: then it repeats itself. */
  repeat(offset: number, length: number): void {
    this.#reserve(length);
    const from = this.length - offset;
    if (offset >= length) this.#buffer.copyWithin(this.length, from, from + length);
    else for (let at = 0; at < length; at += 1) this.#buffer[this.length + at] = this.#buffer[from + at] ?? 0;
    this.length += length;
  }

  since(start: number): Uint8Array {
    return this.#buffer.subarray(start, this.length);
  }

  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.length);
  }

  #reserve(more: number): void {
    const needed = this.length + more;
    if (needed > this.#max) throw new BadFrame(`unpacked it has more than ${this.#max} bytes`);
    if (needed <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.min(this.#max, Math.max(needed, this.#buffer.length * 2)));
    larger.set(this.bytes());
    this.#buffer = larger;
  }
}

function byte(bytes: Uint8Array, at: number): number {
  const value = bytes[at];
  if (value === undefined) throw new BadFrame("it is cut off");
  return value;
}

function need(bytes: Uint8Array, at: number, count: number): void {
  if (at + count > bytes.length) throw new BadFrame("it is cut off");
}

function word(bytes: Uint8Array, at: number): number {
  return (
    (byte(bytes, at) | (byte(bytes, at + 1) << 8) | (byte(bytes, at + 2) << 16) | (byte(bytes, at + 3) << 24)) >>> 0
  );
}

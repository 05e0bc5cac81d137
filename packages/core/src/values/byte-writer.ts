const SLAB_BYTES = 65_536;
const encoder = new TextEncoder();

let slab = new Uint8Array(SLAB_BYTES);
let used = 0;

export function utf8(text: string): Uint8Array {
  if (text.length > SLAB_BYTES / 16) return encoder.encode(text);
  const writer = new ByteWriter();
  writer.text(text);
  return writer.take();
}

/**
 * Writes chunks one after the other into shared slabs: one allocation for many chunks instead of one for each. What
 * `take` returned is never written again. Only one writer may be at work at a time.
 */
export class ByteWriter {
  #at = used;

  byte(value: number): void {
    this.#reserve(1);
    slab[this.#at] = value;
    this.#at += 1;
  }

  /** LEB128, up to 2^53. */
  varint(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest >= 128) {
      slab[this.#at] = (rest % 128) + 128;
      this.#at += 1;
      rest = Math.floor(rest / 128);
    }
    slab[this.#at] = rest;
    this.#at += 1;
  }

  /** Differences of ids, zigzag coded: ids given in a row cost one byte each. */
  ids(ids: readonly number[]): void {
    let last = 0;
    for (const id of ids) {
      const step = id - last;
      this.varint(step < 0 ? -2 * step - 1 : 2 * step);
      last = id;
    }
  }

  text(text: string): void {
    this.#reserve(text.length * 3);
    this.#at += encoder.encodeInto(text, slab.subarray(this.#at)).written;
  }

  /** The number of bytes, then the text; returns that number. */
  sizedText(text: string): number {
    this.#reserve(text.length * 3 + 8);
    const guess = widthOf(text.length);
    const { written } = encoder.encodeInto(text, slab.subarray(this.#at + guess));
    const width = widthOf(written);
    if (width !== guess) slab.copyWithin(this.#at + width, this.#at + guess, this.#at + guess + written);
    this.varint(written);
    this.#at += written;
    return written;
  }

  take(): Uint8Array {
    const bytes = slab.subarray(used, this.#at);
    used = this.#at;
    return bytes;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= slab.length) return;
    const written = this.#at - used;
    const next = new Uint8Array(Math.max(SLAB_BYTES, written + bytes));
    next.set(slab.subarray(used, this.#at));
    slab = next;
    used = 0;
    this.#at = written;
  }
}

function widthOf(value: number): number {
  let width = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) width += 1;
  return width;
}

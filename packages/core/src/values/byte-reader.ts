import { corrupt } from "./corrupt.ts";

/** fatal: broken UTF-8 is damage, not a replacement character. ignoreBOM: a leading U+FEFF is part of the text. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw corrupt("its text is not UTF-8", error);
  }
}

/** Reads bytes that may be hostile: every read is checked against the end, and nothing is allocated on their word. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  #at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  get atEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) throw corrupt("it ends inside a number");
      this.#at += 1;
      value += (byte & 127) * scale;
      if (value > Number.MAX_SAFE_INTEGER) throw corrupt("a number in it is too large");
      if (byte < 128) return value;
      scale *= 128;
      if (scale > Number.MAX_SAFE_INTEGER) throw corrupt("a number in it is too long");
    }
  }

  sizedText(): { readonly text: string; readonly bytes: number } {
    const bytes = this.varint();
    const end = this.#at + bytes;
    if (end > this.#bytes.length) throw corrupt("it ends inside a text");
    const text = bytes === 0 ? "" : textOf(this.#bytes.subarray(this.#at, end));
    this.#at = end;
    return { text, bytes };
  }

  /** All that is left. */
  ids(): readonly number[] {
    const ids: number[] = [];
    let last = 0;
    while (!this.atEnd) {
      const coded = this.varint();
      last += coded % 2 === 0 ? coded / 2 : -(coded + 1) / 2;
      if (last < 0 || last > Number.MAX_SAFE_INTEGER) throw corrupt("a reference in it is out of range");
      ids.push(last);
    }
    return ids;
  }
}

import type { Digest } from "../json.ts";
import type { ChunkSink } from "./chunk.ts";
import { type Facts, factsOf } from "./facts.ts";
import type { Texts } from "./long-texts.ts";

/**
 * What encode and decode learned about captured values. It never keeps a value alive. It holds chunk ids,
 * so it belongs to one store and must be dropped when ids put through it may be gone: after a rolled-back
 * transaction and after a sweep that removed chunks. Dropping it costs time, never correctness.
 */
export class Memo {
  /** Of values that are too small to carry facts. */
  readonly #small = new WeakMap<object, Encoding>();

  encoding(value: object): Encoding | undefined {
    const facts = factsOf(value);
    if (facts === undefined) return this.#small.get(value);
    return facts.memo === this ? facts.encoding : undefined;
  }

  /** Of a container that is one chunk only where it is an element of an array. */
  element(value: object): Encoding | undefined {
    const facts = factsOf(value);
    return facts !== undefined && facts.memo === this ? facts.element : undefined;
  }

  setEncoding(value: object, encoding: Encoding): void {
    const facts = this.#own(value);
    if (facts === undefined) this.#small.set(value, encoding);
    else facts.encoding = encoding;
  }

  setElement(value: object, encoding: Encoding): void {
    const facts = this.#own(value);
    if (facts !== undefined) facts.element = encoding;
  }

  /** A value that is saved in two stores is remembered by the last. */
  #own(value: object): Facts | undefined {
    const facts = factsOf(value);
    if (facts === undefined || facts.memo === this) return facts;
    facts.memo = this;
    facts.encoding = undefined;
    facts.element = undefined;
    return facts;
  }
}

export function createMemo(): Memo {
  return new Memo();
}

export interface Encoding {
  readonly chunk: Stored;
  /** Bytes as canonical JSON. */
  readonly logical: number;
  /** The pages of a container, from its entries upwards; the last level has one page, which is `chunk`. */
  readonly levels: readonly Level[];
}

export type Level = readonly Page[];

export interface Page {
  readonly chunk: Stored;
  /** Entries right below: elements, keys, pages of the level below, pieces of a text. */
  readonly count: number;
  /** Elements or keys of the container. */
  readonly items: number;
  /** Bytes of those as canonical JSON, without the commas between them. */
  readonly logical: number;
  /** Strings have no identity to remember them by, so the page that holds a long one does. */
  readonly texts: Texts | undefined;
}

/** A chunk that is in the store already, or that goes there when something comes to refer to it. A root never does. */
export class Stored {
  readonly digest: Digest;
  /** For `isCut`. */
  readonly mark: number;
  #place: number | Uint8Array;

  constructor(digest: Digest, place: number | Uint8Array) {
    this.digest = digest;
    this.mark = Number.parseInt(digest.slice(0, 8), 16);
    this.#place = place;
  }

  idIn(sink: ChunkSink): number {
    if (typeof this.#place !== "number") this.#place = sink.put(this.digest, this.#place);
    return this.#place;
  }

  get place(): number | Uint8Array {
    return this.#place;
  }
}

import type { Digest } from "../../json.ts";
import type { Chunk, ChunkSink, ChunkSource } from "../chunk.ts";

/** Chunks in memory. Ids start where told and go up by `stride`, to show that nothing hangs on them. */
export class ChunkShelf implements ChunkSink, ChunkSource {
  readonly chunks = new Map<number, Chunk>();
  readonly #ids = new Map<Digest, number>();
  readonly #stride: number;
  #next: number;
  /** Since the last `mark`. */
  added = { chunks: 0, bytes: 0 };

  constructor(params: { readonly first?: number; readonly stride?: number } = {}) {
    this.#next = params.first ?? 0;
    this.#stride = params.stride ?? 1;
  }

  put(digest: Digest, bytes: Uint8Array): number {
    const known = this.#ids.get(digest);
    if (known !== undefined) return known;
    const id = this.#next;
    this.#next += this.#stride;
    this.#ids.set(digest, id);
    this.chunks.set(id, { digest, bytes: bytes.slice() });
    this.added = { chunks: this.added.chunks + 1, bytes: this.added.bytes + bytes.length };
    return id;
  }

  get(id: number): Chunk | undefined {
    return this.chunks.get(id);
  }

  mark(): void {
    this.added = { chunks: 0, bytes: 0 };
  }
}

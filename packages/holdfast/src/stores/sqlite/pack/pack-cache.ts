import { type Packed, unpackChunks } from "./pack-codec.ts";
import type { PackTable } from "./pack-table.ts";
import type { BundlePart } from "./root-body.ts";
import type { Chunk } from "@holdfast/core/values/chunk";

/** Packs that were read lately, unpacked. Who wants one chunk wants its neighbours next, as a rule. */
export interface PackCache {
  at(pack: number, slot: number): Chunk | undefined;
  last(pack: number): Chunk | undefined;
  /** All of them, in their order. */
  chunks(pack: number): readonly Chunk[] | undefined;
  forget(): void;
}

const CACHE_BYTES = 16 << 20;
const KNOWN_PARTS = 1 << 14;

/** Chunks with those of one pack among them. */
interface Section {
  readonly chunks: readonly Chunk[];
  readonly first: number;
  readonly count: number;
}

export function createPackCache(table: PackTable): PackCache {
  /** Bundles are beside packs, under negative numbers. */
  const cache = new Map<number, { readonly chunks: readonly Chunk[]; readonly size: number }>();
  const parts = new Map<number, BundlePart>();
  let cached = 0;

  function load(pack: number): Section | undefined {
    const own = hit(pack);
    if (own !== undefined) return { chunks: own, first: 0, count: own.length };
    const known = parts.get(pack);
    if (known !== undefined) return bundled(known);
    const found = table.find(pack);
    if (found === undefined) return undefined;
    if (found.kind === "bundled") {
      if (parts.size >= KNOWN_PARTS) parts.clear();
      parts.set(pack, found.part);
      return bundled(found.part);
    }
    const chunks = keep(pack, found.packed);
    return { chunks, first: 0, count: chunks.length };
  }

  function bundled({ bundle, first, count }: BundlePart): Section | undefined {
    const chunks = hit(-bundle);
    if (chunks !== undefined) return { chunks, first, count };
    const packed = table.bundle(bundle);
    return packed === undefined ? undefined : { chunks: keep(-bundle, packed), first, count };
  }

  function hit(key: number): readonly Chunk[] | undefined {
    const found = cache.get(key);
    if (found === undefined) return undefined;
    cache.delete(key);
    cache.set(key, found);
    return found.chunks;
  }

  function keep(key: number, packed: Packed): readonly Chunk[] {
    const chunks = unpackChunks(packed);
    cache.set(key, { chunks, size: packed.raw });
    cached += packed.raw;
    for (const [oldest, entry] of cache) {
      if (cached <= CACHE_BYTES || oldest === key) break;
      cache.delete(oldest);
      cached -= entry.size;
    }
    return chunks;
  }

  return {
    at(pack, slot) {
      const found = load(pack);
      return found === undefined || slot >= found.count ? undefined : found.chunks[found.first + slot];
    },
    last(pack) {
      const found = load(pack);
      return found?.chunks[found.first + found.count - 1];
    },
    chunks(pack) {
      const found = load(pack);
      return found?.chunks.slice(found.first, found.first + found.count);
    },
    forget() {
      cache.clear();
      parts.clear();
      cached = 0;
    },
  };
}

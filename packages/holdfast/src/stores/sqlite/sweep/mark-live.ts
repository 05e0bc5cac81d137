import { packOf, SLOTS_PER_PACK, slotOf } from "../pack/chunk-id.ts";
import { references } from "@holdfast/core/values/references";
import type { ChunkSource } from "@holdfast/core/values/chunk";

/** Which chunks are reached from live checkpoints: one bit a slot, so that memory stays small however many there are. */
export interface LiveChunks {
  /** Marks what a root refers to, and all below that. */
  mark(root: Uint8Array): void;
  /** Marks a chunk alone. */
  keep(chunk: number): void;
  isLive(pack: number, slot: number): boolean;
}

export function createLiveChunks(source: ChunkSource): LiveChunks {
  const packs = new Map<number, Uint8Array>();

  /** True when it was not marked before. */
  function set(id: number): boolean {
    const pack = packOf(id);
    const slot = slotOf(id);
    let bits = packs.get(pack);
    if (bits === undefined) {
      bits = new Uint8Array(SLOTS_PER_PACK / 8);
      packs.set(pack, bits);
    }
    const byte = bits[slot >> 3] ?? 0;
    const bit = 1 << (slot & 7);
    if ((byte & bit) !== 0) return false;
    bits[slot >> 3] = byte | bit;
    return true;
  }

  return {
    mark(root) {
      const open = references(root).filter(set);
      for (let id = open.pop(); id !== undefined; id = open.pop()) {
        // A chunk that is gone is for verify to tell; it keeps nothing alive.
        const chunk = source.get(id);
        if (chunk === undefined) continue;
        for (const below of references(chunk.bytes)) if (set(below)) open.push(below);
      }
    },
    keep: (chunk) => void set(chunk),
    isLive(pack, slot) {
      const byte = packs.get(pack)?.[slot >> 3] ?? 0;
      return (byte & (1 << (slot & 7))) !== 0;
    },
  };
}

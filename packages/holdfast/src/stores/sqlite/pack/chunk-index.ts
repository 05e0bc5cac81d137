import type { DatabaseSync } from "node:sqlite";
import { integer } from "../columns.ts";
import type { Digest } from "@holdfast/core/json";

/**
 * Which chunk has a digest, so that what is stored is not stored again, whoever saves it. It trails behind the packs: what
 * is lost of it with a process costs space one day, never a value.
 */
export interface ChunkIndex {
  /** A chunk whose digest begins alike: to be compared with the whole. */
  find(digest: Digest): number | undefined;
  /** Remembers, to be written down later. */
  add(chunks: readonly (readonly [Digest, number])[]): void;
  isDue(): boolean;
  flush(when: "due" | "now"): void;
  forget(): void;
}

/** Digests that may be only remembered. */
const FLUSH_EVERY = 2048;

export function createChunkIndex(db: DatabaseSync): ChunkIndex {
  const find = db.prepare("SELECT id FROM chunks WHERE key = ?");
  const insert = db.prepare("INSERT OR REPLACE INTO chunks (key, id) VALUES (?, ?)");
  let pending: (readonly [number, number])[] = [];
  return {
    find(digest) {
      const row = find.get(chunkKey(digest));
      return row === undefined ? undefined : integer(row, "id");
    },
    add(chunks) {
      for (const [digest, id] of chunks) pending.push([chunkKey(digest), id]);
    },
    isDue: () => pending.length >= FLUSH_EVERY,
    flush(when) {
      if (pending.length === 0 || (when === "due" && pending.length < FLUSH_EVERY)) return;
      // Sorted, so that neighbours in the tree are written together.
      pending.sort((a, b) => a[0] - b[0]);
      for (const [key, id] of pending) insert.run(key, id);
      pending = [];
    },
    forget() {
      pending = [];
    },
  };
}

/** As much of a digest as an integer key can hold exactly. */
export function chunkKey(digest: Digest): number {
  return Number.parseInt(digest.slice(0, 13), 16);
}

import type { DatabaseSync } from "node:sqlite";
import { chunkIdOf, packOf, rowPackOf, SLOTS_PER_PACK, slotOf } from "./chunk-id.ts";
import { createChunkIndex } from "./chunk-index.ts";
import { isRecord, packChunks, rawRecord, readSlots, SAVE_LEVEL, toRecord } from "./pack-codec.ts";
import { createPackCache } from "./pack-cache.ts";
import { BLOB_BYTES, type PackTable } from "./pack-table.ts";
import { bundlePart, referenceBody, referredChunk } from "./root-body.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "@holdfast/core/json";
import { type Memo, createMemo } from "@holdfast/core/values/memo";
import type { Chunk, ChunkSink, ChunkSource } from "@holdfast/core/values/chunk";

/** Chunks of values: written in packs, one a save as a rule, and found again by id or by digest. */
export interface Packs {
  /** What encode and decode remember. It names chunk ids, so it is dropped with them. */
  memo(): Memo;
  writer(params: WriterParams): PackWriter;
  readonly source: ChunkSource;
  /** All chunks of a pack, in their order. */
  chunks(pack: number): readonly Chunk[] | undefined;
  /** The root of the checkpoint at a position, from the body of its row. */
  root(position: number, body: Uint8Array): Uint8Array;
  isDue(): boolean;
  /** Writes down digests that are only remembered. Only in a write transaction. */
  index(when: "due" | "now"): void;
  /** Ids may be gone: after a rollback, or a sweep by anybody. */
  forget(): void;
}

export interface WriterParams {
  /** Position of the row that is to be written; it may turn out higher for one that writes ahead. */
  readonly position: () => number;
  readonly at: number;
  readonly mode: WriterMode;
}

export type WriterMode =
  /** Inside a transaction, into the checkpoint's own row. `tooLarge` is called when that is not enough, and throws. */
  | { readonly kind: "row"; readonly tooLarge: () => never }
  /** Inside a transaction, in packs of their own. */
  | { readonly kind: "packs" }
  /** Outside of one: each pack in a transaction of its own. */
  | { readonly kind: "ahead"; readonly transact: (work: () => void) => void };

export interface PackWriter extends ChunkSink {
  /** Writes what is left, and the root with it; returns the body for the checkpoint's row, and all bytes that were written. */
  finish(root: Chunk): { readonly body: Uint8Array; readonly added: number };
  /** Writes what is left, without a root: for one that writes ahead. */
  flush(): void;
}

/** Thrown to a writer whose earlier chunks may be gone: it has to begin again. */
export class PacksForgotten extends Error {}

/** A pack is closed at this size: what a save holds in memory, and what one read has to unpack. */
const PACK_BYTES = 1 << 20;
/**
 * A save of so much is written as it is, and compressed later, in a bundle: compressing costs about twice what
 * writing does. Of more, fewer bytes to write are worth the wait.
 */
const RAW_BYTES = 128 << 10;
const KNOWN_DIGESTS = 1 << 16;
const OBJECT_TEXT = 0x7b;

/**
 * What is shorter is not looked for in the index, nor entered. Only pages of a few references are, and most of them live
 * until the next save: an entry would cost about what they do. Another handle that saves the same writes them again.
 */
const WORTH_FINDING = 192;

interface OpenPack {
  readonly id: number;
  readonly chunks: Chunk[];
  size: number;
}

export function createPacks(params: {
  readonly db: DatabaseSync;
  readonly table: PackTable;
  /** So many bytes were written as they are. */
  readonly onRaw: (bytes: number) => void;
}): Packs {
  const { table } = params;
  const index = createChunkIndex(params.db);
  let memo = createMemo();
  const known = new Map<Digest, number>();
  const cache = createPackCache(table);
  /** Kept: what a save writes is bound at once. */
  const room = Buffer.allocUnsafeSlow(RAW_BYTES);
  let age = 0;

  function remember(digest: Digest, id: number): void {
    if (known.size >= KNOWN_DIGESTS) known.clear();
    known.set(digest, id);
  }

  /** The index holds a part of the digest; the pack's own directory has the whole. */
  function lookUp(digest: Digest): number | undefined {
    const id = index.find(digest);
    const slots = id === undefined ? undefined : table.slots(packOf(id));
    if (id === undefined || slots === undefined) return undefined;
    return readSlots(slots)[slotOf(id)]?.digest === digest ? id : undefined;
  }

  function writer({ position, at, mode }: WriterParams): PackWriter {
    const born = age;
    const fresh: [Digest, number][] = [];
    let open: OpenPack | undefined;
    let highest = 0;
    let written = 0;

    /** Outside a transaction a sweep may come between. What refers to swept chunks must not be written after it. */
    function own(work: () => void): void {
      if (mode.kind !== "ahead") work();
      else {
        mode.transact(() => {
          if (age !== born) throw new PacksForgotten();
          work();
        });
      }
    }

    function begin(): OpenPack {
      let id = rowPackOf(position());
      if (mode.kind !== "row") {
        own(() => {
          id = table.next(position());
          table.reserve(id, at);
        });
      }
      open = { id, chunks: [], size: 0 };
      return open;
    }

    /** Of a pack with a row of its own. */
    function close(): void {
      if (open === undefined) return;
      const { id, chunks } = open;
      open = undefined;
      const packed = packChunks(chunks, SAVE_LEVEL);
      own(() => table.replace(id, packed));
      written += packed.slots.length + packed.body.length;
    }

    function makeRoom(content: Uint8Array): void {
      if (open === undefined) return;
      // One slot is kept for the root.
      const full = open.size + content.length > PACK_BYTES || open.chunks.length >= SLOTS_PER_PACK - 1;
      if (full && mode.kind === "row") mode.tooLarge();
      // A pack that others have overtaken takes no more: a chunk's id is above those it refers to, which sweep relies on.
      if (full || packOf(highest) > open.id) close();
    }

    return {
      put(digest, content) {
        if (age !== born) throw new PacksForgotten();
        const isWorthFinding = content.length >= WORTH_FINDING;
        const found = known.get(digest) ?? (isWorthFinding ? lookUp(digest) : undefined);
        if (found !== undefined) {
          highest = Math.max(highest, found);
          return found;
        }
        makeRoom(content);
        const pack = open ?? begin();
        const id = chunkIdOf(pack.id, pack.chunks.length);
        pack.chunks.push({ digest, bytes: content });
        pack.size += content.length;
        remember(digest, id);
        if (isWorthFinding) fresh.push([digest, id]);
        return id;
      },
      flush() {
        close();
        index.add(fresh);
      },
      finish(root) {
        if (mode.kind !== "row") close();
        index.add(fresh);
        const chunks = open?.chunks ?? [];
        if (chunks.length === 0 && root.bytes[0] === OBJECT_TEXT)
          return { body: root.bytes, added: written + root.bytes.length };
        chunks.push(root);
        if ((open?.size ?? 0) + root.bytes.length <= RAW_BYTES) {
          const record = rawRecord(chunks, room);
          params.onRaw(record.length);
          return { body: record, added: written + record.length };
        }
        const packed = packChunks(chunks, SAVE_LEVEL);
        const record = toRecord(packed);
        if (record.length <= BLOB_BYTES) return { body: record, added: written + record.length };
        const pack = rowPackOf(position());
        table.insert(pack, packed, at);
        return { body: referenceBody(chunkIdOf(pack, chunks.length - 1)), added: written + record.length };
      },
    };
  }

  return {
    memo: () => memo,
    writer,
    source: {
      get(id) {
        const chunk = cache.at(packOf(id), slotOf(id));
        if (chunk !== undefined) remember(chunk.digest, id);
        return chunk;
      },
    },
    chunks: cache.chunks,
    root(position, body) {
      const referred = referredChunk(body);
      if (referred === undefined && !isRecord(body) && bundlePart(body) === undefined) return body;
      const root =
        referred === undefined ? cache.last(rowPackOf(position)) : cache.at(packOf(referred), slotOf(referred));
      if (root !== undefined) return root.bytes;
      throw new HoldfastError({
        code: "STORE_CORRUPT",
        message: `The pack with the root of the checkpoint at position ${position} is gone`,
        hint: "Run `holdfast verify` to see which checkpoints are still whole.",
      });
    },
    isDue: index.isDue,
    index: index.flush,
    forget() {
      age += 1;
      memo = createMemo();
      known.clear();
      cache.forget();
      index.forget();
    },
  };
}

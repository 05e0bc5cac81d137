import type { DatabaseSync } from "node:sqlite";
import type { BlobFiles } from "./blob-files.ts";
import { isRowPack, packsFor, positionOf } from "./chunk-id.ts";
import { type Row, bytes, bytesOrNull, integer, integerOrNull, textOrNull } from "../columns.ts";
import { CODEC, type Packed, fromRecord, isRecord, slotsBetween } from "./pack-codec.ts";
import { type BundlePart, bundlePart } from "./root-body.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "@holdfast/core/json";

/**
 * Where packs lie. One that a checkpoint brought lies in the checkpoint's own row, so that a save writes one row, and
 * later in a bundle with others; when the checkpoint is dropped it moves to the table of packs. Large ones have a row of their own from the beginning, and
 * their body in a file.
 */
export interface PackTable {
  find(pack: number): FoundPack | undefined;
  bundle(id: number): Packed | undefined;
  slots(pack: number): Uint8Array | undefined;
  /** Number for a pack of its own, written for a position. */
  next(position: number): number;
  insert(pack: number, packed: Packed, at: number): void;
  /** Enters an empty pack, to be filled later: its number is taken. */
  reserve(pack: number, at: number): void;
  replace(pack: number, packed: Packed): void;
}

export type FoundPack =
  | { readonly kind: "own"; readonly packed: Packed }
  | { readonly kind: "bundled"; readonly part: BundlePart };

/** Larger bodies are cheaper as files than as rows. */
export const BLOB_BYTES = 256 * 1024;
const NO_BYTES = new Uint8Array(0);

export function createPackTable(db: DatabaseSync, blobs: BlobFiles): PackTable {
  const get = db.prepare("SELECT id, codec, level, raw, blob, slots, body FROM packs WHERE id = ?");
  const slots = db.prepare("SELECT slots FROM packs WHERE id = ?");
  const getBundle = db.prepare("SELECT codec, level, raw, slots, body FROM bundles WHERE id = ?");
  const bundleSlots = db.prepare("SELECT slots FROM bundles WHERE id = ?");
  const inRow = db.prepare("SELECT body FROM log WHERE pos = ?");
  const last = db.prepare("SELECT max(id) AS id FROM packs WHERE id >= ? AND id <= ?");
  const insert = db.prepare(
    "INSERT INTO packs (id, codec, level, raw, at, stored, blob, slots, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare(
    "UPDATE packs SET codec = ?, level = ?, raw = ?, stored = ?, blob = ?, slots = ?, body = ? WHERE id = ?",
  );

  function rowPack(pack: number): FoundPack | undefined {
    const body = isRowPack(pack) ? inRow.get(positionOf(pack))?.["body"] : undefined;
    if (!(body instanceof Uint8Array)) return undefined;
    if (isRecord(body)) return { kind: "own", packed: fromRecord(body) };
    const part = bundlePart(body);
    return part === undefined ? undefined : { kind: "bundled", part };
  }

  function placed(body: Uint8Array): { readonly blob: Digest | null; readonly body: Uint8Array | null } {
    return body.length > BLOB_BYTES ? { blob: blobs.put(body), body: null } : { blob: null, body };
  }

  return {
    find(pack) {
      const found = rowPack(pack);
      if (found !== undefined) return found;
      const row = get.get(pack);
      return row === undefined ? undefined : { kind: "own", packed: packedRow(row, blobs) };
    },
    bundle(id) {
      const row = getBundle.get(id);
      return row === undefined ? undefined : bundleRow(row);
    },
    slots(pack) {
      const found = rowPack(pack);
      if (found?.kind === "own") return found.packed.slots;
      const row = found === undefined ? slots.get(pack) : bundleSlots.get(found.part.bundle);
      if (row === undefined) return undefined;
      const all = bytes(row, "slots");
      return found === undefined ? all : slotsBetween(all, found.part.first, found.part.count);
    },
    next(position) {
      const range = packsFor(position);
      const next = (integerOrNull(last.get(range.first, range.last) ?? { id: null }, "id") ?? range.first - 1) + 1;
      if (next <= range.last) return next;
      throw new HoldfastError({
        code: "UNSUPPORTED",
        message: "A state of more than a thousand packs is too large",
        hint: "Save less at once.",
      });
    },
    insert(pack, packed, at) {
      const place = placed(packed.body);
      insert.run(
        pack,
        packed.codec,
        packed.level,
        packed.raw,
        at,
        packed.body.length,
        place.blob,
        packed.slots,
        place.body,
      );
    },
    reserve: (pack, at) => void insert.run(pack, CODEC.raw, 0, 0, at, 0, null, NO_BYTES, NO_BYTES),
    replace(pack, packed) {
      const place = placed(packed.body);
      update.run(
        packed.codec,
        packed.level,
        packed.raw,
        packed.body.length,
        place.blob,
        packed.slots,
        place.body,
        pack,
      );
    },
  };
}

export function bundleRow(row: Row): Packed {
  return {
    codec: integer(row, "codec"),
    level: integer(row, "level"),
    raw: integer(row, "raw"),
    slots: bytes(row, "slots"),
    body: bytes(row, "body"),
  };
}

export function packedRow(row: Row, blobs: BlobFiles): Packed {
  const blob = textOrNull(row, "blob");
  const body = blob === null ? bytesOrNull(row, "body") : blobs.get(blob, integer(row, "raw"));
  if (body === null) {
    throw new HoldfastError({
      code: "STORE_CORRUPT",
      message: `The pack ${integer(row, "id")} has no body`,
      hint: "Run `holdfast verify`.",
    });
  }
  return {
    codec: integer(row, "codec"),
    level: integer(row, "level"),
    raw: integer(row, "raw"),
    slots: bytes(row, "slots"),
    body,
  };
}

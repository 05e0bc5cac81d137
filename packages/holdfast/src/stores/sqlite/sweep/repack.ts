import { bytes, integer } from "../columns.ts";
import type { Handle } from "../handle.ts";
import { bury, NO_DIGEST, packChunks, readSlots, SAVE_LEVEL, SWEEP_LEVEL, unpackChunks } from "../pack/pack-codec.ts";
import { chunkIdOf } from "../pack/chunk-id.ts";
import { chunkKey } from "../pack/chunk-index.ts";
import { packedRow } from "../pack/pack-table.ts";
import type { PackPlan } from "../pack/plan-pack.ts";

export interface Repacked {
  readonly chunks: number;
  readonly packs: number;
  readonly freedBytes: number;
  readonly recompressed: number;
  /** Bytes that were compressed anew. */
  readonly work: number;
}

export interface Repack {
  apply(plan: Exclude<PackPlan, { readonly kind: "keep" }>, dryRun: boolean): Repacked;
}

/**
 * A dead chunk's slot stays, empty, because the others are found by their slot's number. Files are left to the sweep of
 * files, which waits until nobody can be about to use them.
 */
export function createRepack(handle: Handle): Repack {
  const { db, blobs, packTable } = handle;
  const get = db.prepare("SELECT id, codec, level, raw, stored, blob, slots, body FROM packs WHERE id = ?");
  const remove = db.prepare("DELETE FROM packs WHERE id = ?");
  const setSlots = db.prepare("UPDATE packs SET slots = ? WHERE id = ?");
  const setLevel = db.prepare("UPDATE packs SET level = ? WHERE id = ?");
  const unindex = db.prepare("DELETE FROM chunks WHERE key = ? AND id = ?");

  function forget(id: number, dead: readonly number[], slots: Uint8Array): void {
    const entries = readSlots(slots);
    for (const slot of dead) {
      const found = entries[slot];
      if (found !== undefined) unindex.run(chunkKey(found.digest), chunkIdOf(id, slot));
    }
  }

  return {
    apply(plan, dryRun) {
      const row = get.get(plan.id);
      if (row === undefined) return NOTHING;
      const slots = bytes(row, "slots");
      const stored = integer(row, "stored");
      const gone = { ...NOTHING, chunks: plan.dead.length };
      if (!dryRun) forget(plan.id, plan.dead, slots);
      switch (plan.kind) {
        case "remove":
          if (!dryRun) remove.run(plan.id);
          return { ...gone, packs: 1, freedBytes: slots.length + (row["blob"] === null ? stored : 0) };
        case "bury":
          if (!dryRun) setSlots.run(bury(slots, plan.dead), plan.id);
          return gone;
        case "rewrite": {
          const dead = new Set(plan.dead);
          const chunks = unpackChunks(packedRow(row, blobs)).map((chunk, slot) =>
            dead.has(slot) || chunk.digest === NO_DIGEST ? { digest: NO_DIGEST, bytes: NO_BYTES } : chunk,
          );
          const level = plan.harder ? SWEEP_LEVEL : SAVE_LEVEL;
          const packed = packChunks(chunks, level);
          const smaller = packed.body.length < stored;
          if (!dryRun) {
            if (smaller) packTable.replace(plan.id, packed);
            else {
              setLevel.run(level, plan.id);
              setSlots.run(bury(slots, plan.dead), plan.id);
            }
          }
          return {
            ...gone,
            freedBytes: smaller ? stored - packed.body.length : 0,
            recompressed: plan.harder ? 1 : 0,
            work: packed.raw,
          };
        }
      }
    },
  };
}

const NOTHING: Repacked = { chunks: 0, packs: 0, freedBytes: 0, recompressed: 0, work: 0 };
const NO_BYTES = new Uint8Array(0);

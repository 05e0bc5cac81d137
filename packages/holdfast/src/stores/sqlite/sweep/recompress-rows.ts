import { bytes, integer } from "../columns.ts";
import type { Handle } from "../handle.ts";
import { fromRecord, isRecord, packChunks, SWEEP_LEVEL, toRecord, unpackChunks } from "../pack/pack-codec.ts";

export interface Recompressed {
  /** Position it came to; null at the end. */
  readonly reached: number | null;
  readonly packs: number;
  readonly freedBytes: number;
}

/** Rows looked at, and bytes compressed, in one transaction. */
const SLICE = 64;
const SLICE_BYTES = 2 << 20;
/** Shorter bodies are no packs worth the trouble. */
const WORTHWHILE = 600;

/** Compresses packs in the rows of old checkpoints harder. Their chunks are alive, all of them, as long as the checkpoint is. */
export function recompressRows(
  handle: Handle,
  params: { readonly after: number; readonly before: number; readonly dryRun: boolean },
): Recompressed {
  const rows = handle.db
    .prepare(
      "SELECT pos, body FROM log WHERE pos > ? AND sequence IS NOT NULL AND at < ? AND length(body) > ? ORDER BY pos LIMIT ?",
    )
    .all(params.after, params.before, WORTHWHILE, SLICE);
  const setBody = handle.db.prepare("UPDATE log SET body = ? WHERE pos = ?");
  let reached: number | null = null;
  let packs = 0;
  let freedBytes = 0;
  let work = 0;
  for (const row of rows) {
    reached = integer(row, "pos");
    const body = bytes(row, "body");
    const packed = isRecord(body) ? fromRecord(body) : undefined;
    if (packed === undefined || packed.level >= SWEEP_LEVEL) continue;
    const harder = packChunks(unpackChunks(packed), SWEEP_LEVEL);
    const smaller = harder.body.length < packed.body.length;
    if (!params.dryRun) setBody.run(toRecord(smaller ? harder : { ...packed, level: SWEEP_LEVEL }), reached);
    if (smaller) freedBytes += packed.body.length - harder.body.length;
    packs += 1;
    work += packed.raw;
    if (work > SLICE_BYTES) break;
  }
  return { reached, packs, freedBytes };
}

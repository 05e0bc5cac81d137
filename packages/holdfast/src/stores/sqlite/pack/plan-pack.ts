import { bytes, integer } from "../columns.ts";
import type { Row } from "../columns.ts";
import type { LiveChunks } from "../sweep/mark-live.ts";
import { NO_DIGEST, readSlots, SWEEP_LEVEL } from "./pack-codec.ts";

/** What a sweep does with one pack. `dead`: slots of chunks that nothing refers to any more. */
export type PackPlan =
  | { readonly kind: "keep" }
  /** Mostly alive: the dead stay where they are, but can be found no more. */
  | { readonly kind: "bury"; readonly id: number; readonly dead: readonly number[] }
  | { readonly kind: "rewrite"; readonly id: number; readonly dead: readonly number[]; readonly harder: boolean }
  | { readonly kind: "remove"; readonly id: number; readonly dead: readonly number[] };

/** Rewriting costs as much as it saves until most of a pack is dead; a pack that is compressed anew drops its dead with it. */
export function planPack(row: Row, live: LiveChunks, compressBefore: number | null): PackPlan {
  const id = integer(row, "id");
  const dead: number[] = [];
  let alive = 0;
  let start = 0;
  let deadBytes = 0;
  for (const [slot, { digest, end }] of readSlots(bytes(row, "slots")).entries()) {
    if (live.isLive(id, slot)) alive += 1;
    else {
      deadBytes += end - start;
      if (digest !== NO_DIGEST) dead.push(slot);
    }
    start = end;
  }
  if (alive === 0) return { kind: "remove", id, dead };
  const harder = compressBefore !== null && integer(row, "at") < compressBefore && integer(row, "level") < SWEEP_LEVEL;
  if (harder || deadBytes * 2 > start) return { kind: "rewrite", id, dead, harder };
  return dead.length > 0 ? { kind: "bury", id, dead } : { kind: "keep" };
}

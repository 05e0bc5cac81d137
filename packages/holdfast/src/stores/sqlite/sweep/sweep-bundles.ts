import { bytes, integer } from "../columns.ts";
import type { Handle } from "../handle.ts";
import { BUNDLE_LEVEL, NO_DIGEST, packChunks, readSlots, SWEEP_LEVEL, unpackChunks } from "../pack/pack-codec.ts";
import type { Packed } from "../pack/pack-codec.ts";
import { bundleRow } from "../pack/pack-table.ts";
import { bundlePart } from "../pack/root-body.ts";

export interface SweptBundles {
  /** Lowest bundle it came to; null at the end. */
  readonly reached: number | null;
  readonly packs: number;
  readonly freedBytes: number;
  readonly recompressed: number;
}

/** Bundles looked at, and bytes compressed anew, in one transaction. */
const SLICE = 64;
const SLICE_BYTES = 2 << 20;

/**
 * What no row of the log names any more was dropped, and got a pack of its own then. It can be found here no more, so the
 * order in which bundles are looked at does not matter. The generation is raised: a handle may remember the old place.
 */
export function sweepBundles(
  handle: Handle,
  params: { readonly below: number; readonly compressBefore: number | null; readonly dryRun: boolean },
): SweptBundles {
  const { db } = handle;
  const ids = db.prepare("SELECT id FROM bundles WHERE id < ? ORDER BY id DESC LIMIT ?").all(params.below, SLICE);
  const get = db.prepare("SELECT first, codec, level, raw, at, slots, body FROM bundles WHERE id = ?");
  const remove = db.prepare("DELETE FROM bundles WHERE id = ?");
  const replace = db.prepare("UPDATE bundles SET codec = ?, level = ?, raw = ?, slots = ?, body = ? WHERE id = ?");
  const tally = { packs: 0, freedBytes: 0, recompressed: 0 };
  let reached: number | null = null;
  let work = 0;
  for (const row of ids) {
    const id = integer(row, "id");
    reached = id;
    const found = get.get(id) ?? {};
    const packed = bundleRow(found);
    const live = liveChunks(handle, id, { first: integer(found, "first"), packed });
    const plan = planBundle(
      packed,
      live,
      params.compressBefore !== null && integer(found, "at") < params.compressBefore,
    );
    if (plan === "keep") continue;
    if (plan === "remove") {
      if (!params.dryRun) remove.run(id);
      tally.packs += 1;
      tally.freedBytes += packed.body.length + packed.slots.length;
      continue;
    }
    const rewritten = rewrite(packed, live, plan === "harder" ? SWEEP_LEVEL : BUNDLE_LEVEL);
    const { codec, level, raw, slots, body } = rewritten;
    if (!params.dryRun) replace.run(codec, level, raw, slots, body, id);
    tally.freedBytes += packed.body.length - body.length;
    if (plan === "harder") tally.recompressed += 1;
    work += packed.raw;
    if (work > SLICE_BYTES) break;
  }
  if (!params.dryRun && (tally.packs > 0 || work > 0)) {
    db.prepare("UPDATE meta SET value = value + 1 WHERE key = 'generation'").run();
  }
  return { reached, ...tally };
}

/** Of each chunk, whether a row still names it. */
function liveChunks(
  handle: Handle,
  id: number,
  bundle: { readonly first: number; readonly packed: Packed },
): readonly boolean[] {
  const live = readSlots(bundle.packed.slots).map(() => false);
  const rows = handle.db.prepare(
    "SELECT body FROM log WHERE pos >= ? AND pos <= ? AND sequence IS NOT NULL AND body IS NOT NULL",
  );
  for (const row of rows.iterate(bundle.first, id)) {
    const part = bundlePart(bytes(row, "body"));
    if (part?.bundle === id) live.fill(true, part.first, part.first + part.count);
  }
  return live;
}

/** Rewriting costs as much as it saves until most is dead; what is compressed anew drops its dead with it. */
function planBundle(
  packed: Packed,
  live: readonly boolean[],
  isOld: boolean,
): "keep" | "remove" | "rewrite" | "harder" {
  if (!live.includes(true)) return "remove";
  if (isOld && packed.level < SWEEP_LEVEL) return "harder";
  let dead = 0;
  let start = 0;
  for (const [i, { end }] of readSlots(packed.slots).entries()) {
    if (live[i] !== true) dead += end - start;
    start = end;
  }
  return dead * 2 > start ? "rewrite" : "keep";
}

function rewrite(packed: Packed, live: readonly boolean[], level: number): Packed {
  const chunks = unpackChunks(packed).map((chunk, i) =>
    live[i] === true ? chunk : { digest: NO_DIGEST, bytes: NO_BYTES },
  );
  const anew = packChunks(chunks, level);
  return anew.body.length < packed.body.length ? anew : { ...packed, level };
}

const NO_BYTES = new Uint8Array(0);

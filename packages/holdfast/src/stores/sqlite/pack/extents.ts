import type { DatabaseSync } from "node:sqlite";
import { bytes, integer } from "../columns.ts";
import type { Row } from "../columns.ts";

/**
 * Where a run's numbered things stand in the log: one row for some hundred consecutive numbers, with the position of
 * the first and the distance of each from it. A row a number would cost every save more than the save itself.
 */
export interface Extents {
  find(run: number, number: number): number | undefined;
  last(run: number): Placed | undefined;
  /** Those that are there, highest first, below `before`. */
  down(run: number, before: number): Iterable<Placed>;
  add(run: number, first: number, positions: readonly number[]): void;
  /** Takes numbers out. What is not there is passed over. */
  remove(run: number, numbers: readonly number[]): void;
  /** Others may have changed what is remembered. */
  forget(): void;
  /** How many positions there are, and how many of them were taken out. */
  count(): { readonly all: number; readonly removed: number };
}

export interface Placed {
  readonly number: number;
  readonly pos: number;
}

/** Keys of tables by run and number. Exact as JavaScript numbers for a million runs. */
export function keyOf(run: number, number: number): number {
  return run * RUN_SPAN + number;
}

export function numberOf(key: number): number {
  return key % RUN_SPAN;
}

const RUN_SPAN = 2 ** 32;
const MOST_IN_ROW = 512;
const REMOVED = 0xffffffff;

interface Extent {
  readonly key: number;
  readonly pos: number;
  readonly distances: Buffer;
}

export function createExtents(db: DatabaseSync, table: "places" | "marks"): Extents {
  const below = db.prepare(
    `SELECT key, pos, distances FROM ${table} WHERE key <= ? AND key >= ? ORDER BY key DESC LIMIT 1`,
  );
  const insert = db.prepare(`INSERT INTO ${table} (key, pos, distances) VALUES (?, ?, ?)`);
  const update = db.prepare(`UPDATE ${table} SET distances = ? WHERE key = ?`);
  const all = db.prepare(`SELECT key, pos, distances FROM ${table}`);
  /** Of each run the extent that was read last: lookups come in rows. */
  const recent = new Map<number, Extent>();

  /** The extent that has the number, or the nearest before it. */
  function load(run: number, number: number): Extent | undefined {
    const key = Math.min(keyOf(run, number), keyOf(run + 1, 0) - 1);
    const hit = recent.get(run);
    if (hit !== undefined && key >= hit.key && key < hit.key + lengthOf(hit)) return hit;
    const row = below.get(key, keyOf(run, 0));
    if (row === undefined) return undefined;
    const extent = extentOf(row);
    recent.set(run, extent);
    return extent;
  }

  function find(run: number, number: number): number | undefined {
    const extent = load(run, number);
    return extent === undefined ? undefined : positionAt(extent, keyOf(run, number) - extent.key);
  }

  function* down(run: number, before: number): Generator<Placed> {
    let next = before - 1;
    while (next > 0) {
      const extent = load(run, next);
      if (extent === undefined) return;
      const first = numberOf(extent.key);
      for (let number = Math.min(next, first + lengthOf(extent) - 1); number >= first; number--) {
        const pos = positionAt(extent, number - first);
        if (pos !== undefined) yield { number, pos };
      }
      next = first - 1;
    }
  }

  return {
    find,
    last(run) {
      for (const placed of down(run, RUN_SPAN)) return placed;
      return undefined;
    },
    down,
    add(run, first, positions) {
      for (let at = 0; at < positions.length; at += MOST_IN_ROW) {
        const slice = positions.slice(at, at + MOST_IN_ROW);
        const base = slice[0] ?? 0;
        const distances = Buffer.allocUnsafe(slice.length * 4);
        for (const [i, pos] of slice.entries()) distances.writeUInt32LE(pos - base, i * 4);
        insert.run(keyOf(run, first + at), base, distances);
      }
      recent.delete(run);
    },
    remove(run, numbers) {
      let changed: Extent | undefined;
      const flush = (): void => {
        if (changed !== undefined) update.run(changed.distances, changed.key);
        changed = undefined;
      };
      for (const number of [...numbers].sort((a, b) => a - b)) {
        const extent = load(run, number);
        if (extent === undefined || positionAt(extent, keyOf(run, number) - extent.key) === undefined) continue;
        if (changed !== extent) flush();
        changed = extent;
        extent.distances.writeUInt32LE(REMOVED, (keyOf(run, number) - extent.key) * 4);
      }
      flush();
    },
    forget: () => recent.clear(),
    count() {
      let total = 0;
      let removed = 0;
      for (const row of all.iterate()) {
        const extent = extentOf(row);
        total += lengthOf(extent);
        for (let i = 0; i < lengthOf(extent); i++) if (positionAt(extent, i) === undefined) removed += 1;
      }
      return { all: total, removed };
    },
  };
}

function extentOf(row: Row): Extent {
  const distances = bytes(row, "distances");
  return {
    key: integer(row, "key"),
    pos: integer(row, "pos"),
    distances: Buffer.from(distances.buffer, distances.byteOffset, distances.byteLength),
  };
}

function lengthOf(extent: Extent): number {
  return extent.distances.length >> 2;
}

function positionAt(extent: Extent, index: number): number | undefined {
  if (index < 0 || index >= lengthOf(extent)) return undefined;
  const distance = extent.distances.readUInt32LE(index * 4);
  return distance === REMOVED ? undefined : extent.pos + distance;
}

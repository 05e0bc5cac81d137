import { packOf, slotOf } from "../pack/chunk-id.ts";
import { chunkKey } from "../pack/chunk-index.ts";
import { integer } from "../columns.ts";
import { createExtents } from "../pack/extents.ts";
import { createFacts } from "../facts.ts";
import type { Handle } from "../handle.ts";
import { CHECKPOINTS } from "../log.ts";
import { readMarker } from "../witness/marker.ts";
import { readSlots } from "../pack/pack-codec.ts";
import { asHoldfastError } from "../sqlite-errors.ts";
import type { Problem } from "@holdfast/core/store";

/** What does not belong to one run: the database's own structure, its indexes, and the marker. */
export function verifyTables(handle: Handle): readonly Problem[] {
  const problems: Problem[] = [];
  const checks = [
    checkStructure,
    checkMarker,
    checkIndexes,
    checkChunkIndex,
    (h: Handle) => (createFacts(h.db).check(), []),
  ];
  for (const check of checks) {
    try {
      for (const what of handle.transactions.read(() => check(handle)))
        problems.push(storeProblem("STORE_CORRUPT", what));
    } catch (error) {
      problems.push(storeProblem("STORE_CORRUPT", asHoldfastError(error, handle.layout.directory).message));
    }
  }
  return problems;
}

export function storeProblem(code: Problem["code"], what: string): Problem {
  return { code, run: null, entry: null, sequence: null, what, trustedTo: null, newestIntact: null };
}

function checkStructure(handle: Handle): readonly string[] {
  return handle.db
    .prepare("PRAGMA integrity_check(100)")
    .all()
    .map((row) => String(row["integrity_check"]))
    .filter((line) => line !== "ok")
    .map((line) => `SQLite finds the database damaged: ${line}`);
}

function checkMarker(handle: Handle): readonly string[] {
  const marker = readMarker(handle.layout.marker);
  if (marker === null) return [`The store's marker ${handle.layout.marker} is gone`];
  const id = handle.db.prepare("SELECT id FROM identity").get()?.["id"];
  return marker.id === id ? [] : ["The marker and the database belong to different stores"];
}

/** Positions run from 1 without gaps, and the index knows each of them up to its own mark, no more and no less. */
function checkIndexes(handle: Handle): readonly string[] {
  const { db } = handle;
  const row =
    db
      .prepare(
        `SELECT ${CHECKPOINTS} AS checkpoints,
                count(CASE WHEN sequence IS NOT NULL AND body IS NULL THEN 1 END) AS emptied,
                (SELECT value FROM meta WHERE key = 'indexed') AS indexed
           FROM log`,
      )
      .get() ?? {};
  const indexed = integer(row, "indexed");
  const found = countPlaces(handle, indexed);
  const places = createExtents(db, "places").count();
  const marks = createExtents(db, "marks").count();
  const problems: string[] = [];
  const expect = (what: string, found: number, due: number): void => {
    if (found !== due) problems.push(`${what}: ${found} instead of ${due}`);
  };
  expect("Entries in the log", found.entries, handle.log.last());
  expect("Checkpoints that rows of the log count", integer(row, "checkpoints"), found.checkpoints);
  expect("Entries in the index", places.all - places.removed, indexed);
  expect("Checkpoints in the index", marks.all, found.indexed);
  expect("Dropped checkpoints in the index", marks.removed, integer(row, "emptied"));
  return problems;
}

function countPlaces(
  handle: Handle,
  indexed: number,
): { readonly entries: number; readonly checkpoints: number; readonly indexed: number } {
  const count = { entries: 0, checkpoints: 0, indexed: 0 };
  for (const { pos, sequence } of handle.log.placesFrom(0)) {
    count.entries += 1;
    if (sequence === null) continue;
    count.checkpoints += 1;
    if (pos <= indexed) count.indexed += 1;
  }
  return count;
}

/** A missing row only costs space; a wrong one is caught when it is used, but is damage all the same. */
function checkChunkIndex(handle: Handle): readonly string[] {
  let pack = -1;
  let slots: readonly { readonly digest: string }[] = [];
  let wrong = 0;
  for (const row of handle.db.prepare("SELECT key, id FROM chunks ORDER BY id").iterate()) {
    const id = integer(row, "id");
    if (packOf(id) !== pack) {
      pack = packOf(id);
      slots = readSlots(handle.packTable.slots(pack) ?? new Uint8Array(0));
    }
    const digest = slots[slotOf(id)]?.digest;
    if (digest === undefined || chunkKey(digest) !== integer(row, "key")) wrong += 1;
  }
  return wrong === 0 ? [] : [`The index of chunks has ${wrong} wrong rows`];
}

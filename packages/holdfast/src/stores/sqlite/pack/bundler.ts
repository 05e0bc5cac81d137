import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { type Row, integer } from "../columns.ts";
import { BUNDLE_LEVEL, fromRecord, isRawRecord, packChunks, unpackChunks } from "./pack-codec.ts";
import { partBody } from "./root-body.ts";
import type { Chunk } from "@holdfast/core/values/chunk";

/**
 * Compresses what saves wrote as it was, several saves together, in a transaction of its own: nobody waits for it, and
 * together they take less room. Chunks keep their ids, so nothing that is remembered of them grows old. Whoever bundles
 * takes everybody's rows, also those that a killed process left.
 */
export interface Bundler {
  /** So many bytes more are waiting. */
  note(bytes: number): void;
  isDue(): boolean;
  /** Only in a write transaction. "more": it was too much for one. */
  bundle(when: "due" | "now"): "all" | "more";
}

/** Bytes that may wait. */
const BUNDLE_EVERY = 128 << 10;
/** Of a bundle, and of all that are made in one transaction. Who reads one chunk unpacks the whole bundle. */
const BUNDLE_BYTES = 192 << 10;
const AT_ONCE = 2 << 20;
/** The body is the last of them. */
const LOG_COLUMNS = 18;

interface RawRow {
  readonly pos: number;
  readonly at: number;
  readonly chunks: readonly Chunk[];
  readonly size: number;
}

interface Waiting {
  readonly rows: readonly RawRow[];
  readonly size: number;
  /** Position that was looked at last. */
  readonly reached: number;
}

export function createBundler(db: DatabaseSync): Bundler {
  const doneTo = db.prepare("SELECT value FROM meta WHERE key = 'bundled'");
  const setDone = db.prepare("UPDATE meta SET value = ? WHERE key = 'bundled'");
  const rowsAfter = db.prepare(
    "SELECT pos, at, body FROM log WHERE pos > ? AND sequence IS NOT NULL AND body IS NOT NULL ORDER BY pos",
  );
  const insert = db.prepare(
    "INSERT INTO bundles (id, first, codec, level, raw, at, slots, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const whole = db.prepare("SELECT * FROM log WHERE pos = ?");
  whole.setReturnArrays(true);
  const remove = db.prepare("DELETE FROM log WHERE pos = ?");
  const putBack = db.prepare(`INSERT INTO log VALUES (${Array.from({ length: LOG_COLUMNS }).fill("?").join(", ")})`);
  let waiting = 0;

  function rawRows(): Waiting {
    const rows: RawRow[] = [];
    let size = 0;
    let reached = integer(doneTo.get() ?? {}, "value");
    for (const row of rowsAfter.iterate(reached)) {
      reached = integer(row, "pos");
      const raw = rawRow(row);
      if (raw === undefined) continue;
      rows.push(raw);
      size += raw.size;
      if (size >= AT_ONCE) break;
    }
    return { rows, size, reached };
  }

  /** A page that cannot be read is for readers and verify to tell of: that nothing is bundled keeps nobody from saving. */
  function readable(): Waiting | undefined {
    try {
      return rawRows();
    } catch {
      return undefined;
    }
  }

  function write(rows: readonly RawRow[]): void {
    const [head, tail] = [rows[0], rows.at(-1)];
    if (head === undefined || tail === undefined) return;
    const chunks = rows.flatMap((row) => row.chunks);
    const { codec, level, raw, slots, body } = packChunks(chunks, BUNDLE_LEVEL);
    insert.run(tail.pos, head.pos, codec, level, raw, tail.at, slots, body);
    let first = 0;
    const shrunk: SQLInputValue[][] = [];
    for (const row of rows) {
      shrunk.push([...columnsBeforeBody(row.pos), partBody({ bundle: tail.pos, first, count: row.chunks.length })]);
      first += row.chunks.length;
    }
    // Taken out and put back: SQLite leaves a page on which rows only shrank as empty as it became.
    for (const { pos } of rows) remove.run(pos);
    for (const columns of shrunk) putBack.run(...columns);
  }

  function columnsBeforeBody(pos: number): readonly SQLInputValue[] {
    const row: unknown = whole.get(pos);
    if (!Array.isArray(row) || row.length !== LOG_COLUMNS) throw new Error("the log has other columns");
    return row.slice(0, -1);
  }

  return {
    note(more) {
      waiting += more;
    },
    isDue: () => waiting >= BUNDLE_EVERY,
    bundle(when) {
      waiting = 0;
      const found = readable();
      if (found === undefined || found.rows.length === 0) return "all";
      const { rows, size, reached } = found;
      if (when === "due" && size < BUNDLE_EVERY / 2) {
        // Another process was here meanwhile.
        waiting = size;
        return "all";
      }
      for (const bundle of cut(rows)) write(bundle);
      setDone.run(reached);
      return size >= AT_ONCE ? "more" : "all";
    },
  };
}

/** One that was damaged is left where it is. */
function rawRow(row: Row): RawRow | undefined {
  const { body } = row;
  if (!(body instanceof Uint8Array) || !isRawRecord(body)) return undefined;
  try {
    const chunks = unpackChunks(fromRecord(body));
    return { pos: integer(row, "pos"), at: integer(row, "at"), chunks, size: body.length };
  } catch {
    return undefined;
  }
}

function cut(rows: readonly RawRow[]): readonly (readonly RawRow[])[] {
  const bundles: RawRow[][] = [];
  let open: RawRow[] = [];
  let size = 0;
  for (const row of rows) {
    if (open.length === 0 || size + row.size > BUNDLE_BYTES) {
      open = [];
      size = 0;
      bundles.push(open);
    }
    open.push(row);
    size += row.size;
  }
  return bundles;
}

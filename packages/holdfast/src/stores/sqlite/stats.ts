import { integer } from "./columns.ts";
import { pragma } from "./driver.ts";
import type { Handle } from "./handle.ts";
import { CHECKPOINTS } from "./log.ts";
import { schemaOf } from "./schema.ts";
import type { StoreStats } from "@holdfast/core/store";

export function statsOf(handle: Handle): StoreStats {
  const { db } = handle;
  const count = (sql: string): number => integer(db.prepare(sql).get() ?? {}, "n");
  const pages = Number(pragma(db, "page_count")) * Number(pragma(db, "page_size"));
  return Object.freeze({
    runs: handle.runs.count(),
    entries: handle.log.last(),
    checkpoints: count(`SELECT ${CHECKPOINTS} AS n FROM log`) - count("SELECT count(*) AS n FROM tombstones"),
    bytes: pages + count("SELECT coalesce(sum(stored), 0) AS n FROM packs WHERE blob IS NOT NULL"),
    schema: schemaOf(db),
    engine: `SQLite ${String(db.prepare("SELECT sqlite_version() AS v").get()?.["v"])}`,
    durability: `${String(pragma(db, "journal_mode")).toUpperCase()}, synchronous=${Number(pragma(db, "synchronous")) === 2 ? "FULL" : String(pragma(db, "synchronous"))}`,
  });
}

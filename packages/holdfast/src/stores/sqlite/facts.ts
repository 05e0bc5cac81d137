import type { DatabaseSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { type Row, integer, text } from "./columns.ts";
import type { Job } from "./group-commit.ts";
import { HoldfastError } from "@holdfast/platform/error";

/** Small facts of the store itself. No journal covers them, so each carries a checksum. */
export interface Facts {
  get(key: string): string | undefined;
  set(key: string, value: string): Job<void, void>;
  /** Reads all of them; STORE_CORRUPT at the first that is damaged. */
  check(): void;
}

export function createFacts(db: DatabaseSync): Facts {
  const get = db.prepare("SELECT key, value, crc FROM facts WHERE key = ?");
  const all = db.prepare("SELECT key, value, crc FROM facts");
  const set = db.prepare(
    "INSERT INTO facts (key, value, crc) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, crc = excluded.crc",
  );
  return {
    get(key) {
      const row = get.get(key);
      return row === undefined ? undefined : checked(row);
    },
    set: (key, value) => ({ plan: () => {}, apply: () => void set.run(key, value, checksum(key, value)) }),
    check() {
      for (const row of all.iterate()) checked(row);
    },
  };
}

function checked(row: Row): string {
  const key = text(row, "key");
  const value = text(row, "value");
  if (integer(row, "crc") === checksum(key, value)) return value;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The fact ${JSON.stringify(key)} of the store is damaged`,
    hint: "Set it again; nothing else depends on it.",
    data: { key },
  });
}

function checksum(key: string, value: string): number {
  return crc32(`${key}\n${value}`);
}

import type { DatabaseSync } from "node:sqlite";
import { integer, text } from "../columns.ts";
import type { Row } from "../columns.ts";
import { keyOf, numberOf } from "../pack/extents.ts";

/** What is kept of dropped checkpoints, beside their rows in the log. */
export interface Tombstones {
  get(run: number, sequence: number): Stone | undefined;
  list(run: number): readonly Stone[];
  put(run: number, stone: Stone): void;
}

export interface Stone {
  readonly sequence: number;
  /** Of the checkpoint's row. */
  readonly pos: number;
  readonly at: number;
  readonly why: string;
}

export function createTombstones(db: DatabaseSync): Tombstones {
  const get = db.prepare("SELECT key, pos, at, why FROM tombstones WHERE key = ?");
  const list = db.prepare("SELECT key, pos, at, why FROM tombstones WHERE key >= ? AND key < ? ORDER BY key");
  const put = db.prepare("INSERT INTO tombstones (key, pos, at, why) VALUES (?, ?, ?, ?)");
  return {
    get(run, sequence) {
      const row = get.get(keyOf(run, sequence));
      return row === undefined ? undefined : stone(row);
    },
    list: (run) => list.all(keyOf(run, 0), keyOf(run + 1, 0)).map(stone),
    put: (run, { sequence, pos, at, why }) => void put.run(keyOf(run, sequence), pos, at, why),
  };
}

function stone(row: Row): Stone {
  return {
    sequence: numberOf(integer(row, "key")),
    pos: integer(row, "pos"),
    at: integer(row, "at"),
    why: text(row, "why"),
  };
}

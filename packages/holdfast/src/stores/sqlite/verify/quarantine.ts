import type { DatabaseSync } from "node:sqlite";
import { findCheckpoint } from "../find-checkpoint.ts";
import type { Job } from "../group-commit.ts";
import type { Handle } from "../handle.ts";
import type { Head } from "../witness/heads.ts";
import { integer, text } from "../columns.ts";
import { keyOf, numberOf } from "../pack/extents.ts";
import type { Tombstones } from "../sweep/tombstones.ts";

/** Checkpoints known to be damaged: kept, but passed over. */
export interface Quarantine {
  has(run: number, sequence: number): boolean;
  list(run: number): ReadonlyMap<number, { readonly entry: number; readonly reason: string }>;
  put(run: number, sequence: number, facts: { readonly entry: number; readonly reason: string }): void;
}

export function createQuarantine(db: DatabaseSync): Quarantine {
  const has = db.prepare("SELECT 1 FROM quarantine WHERE key = ?");
  const list = db.prepare("SELECT key, entry, reason FROM quarantine WHERE key >= ? AND key < ? ORDER BY key");
  const put = db.prepare("INSERT INTO quarantine (key, entry, reason) VALUES (?, ?, ?)");
  return {
    has: (run, sequence) => has.get(keyOf(run, sequence)) !== undefined,
    list(run) {
      const rows = list.all(keyOf(run, 0), keyOf(run + 1, 0));
      return new Map(
        rows.map((row) => [
          numberOf(integer(row, "key")),
          { entry: integer(row, "entry"), reason: text(row, "reason") },
        ]),
      );
    },
    put: (run, sequence, { entry, reason }) => void put.run(keyOf(run, sequence), entry, reason),
  };
}

interface QuarantinePlan {
  readonly head: Head;
  readonly sequences: readonly number[];
}

export function quarantineCheckpoints(
  handle: Handle,
  books: { readonly quarantine: Quarantine; readonly tombstones: Tombstones },
  params: { readonly run: string; readonly sequences: readonly number[]; readonly reason: string },
): Job<QuarantinePlan, void> {
  const { quarantine } = books;
  return {
    plan() {
      const head = handle.heads.of(params.run);
      for (const sequence of params.sequences) findCheckpoint(handle, books.tombstones, head, sequence);
      const fresh = new Set(params.sequences.filter((sequence) => !quarantine.has(head.no, sequence)));
      return { head, sequences: [...fresh] };
    },
    apply({ head, sequences }) {
      if (sequences.length === 0) return;
      const body = { sequences, reason: params.reason };
      const next = handle.append.outside(head, { kind: "checkpoint.quarantined", body }, handle.now());
      for (const sequence of sequences) quarantine.put(head.no, sequence, { entry: next.entry, reason: params.reason });
    },
  };
}

import type { CheckpointBooks } from "../checkpoints.ts";
import type { Effects } from "../effects.ts";
import type { Handle } from "../handle.ts";
import type { CheckpointColumns, LogRow } from "../log.ts";
import { type RunRow, foldOf } from "../runs.ts";
import { type Effect, stepEffect } from "@holdfast/core/effects";
import type { JournalEntry } from "@holdfast/core/journal";
import type { Digest, Json } from "@holdfast/core/json";
import { NEW_RUN, type RunFold, stepRun } from "@holdfast/core/status";

/** Everything the tables beside the journal say, computed again from the journal alone. */
export interface Refold {
  readonly tags: Map<string, number>;
  readonly effects: Map<string, Effect>;
  /** Dropped sequences: when and why. */
  readonly dropped: Map<number, { readonly at: string; readonly why: string }>;
  readonly quarantined: Map<number, { readonly entry: number; readonly reason: string }>;
  run: RunFold;
  epoch: number;
  /** Owner's record while the lease is held. */
  lease: Json;
  sequence: number;
  digest: Digest | null;
  /** Takes in an entry that is no checkpoint; throws when it cannot be one of this journal. */
  add(entry: JournalEntry): void;
  checkpoint(columns: CheckpointColumns, row: LogRow): readonly string[];
}

export function createRefold(): Refold {
  return {
    tags: new Map(),
    effects: new Map(),
    dropped: new Map(),
    quarantined: new Map(),
    run: NEW_RUN,
    epoch: 0,
    lease: null,
    sequence: 0,
    digest: null,
    add(entry) {
      addEntry(this, entry);
    },
    checkpoint(columns, row) {
      const problems: string[] = [];
      if (columns.sequence !== this.sequence + 1)
        problems.push(`Checkpoint ${columns.sequence} follows ${this.sequence}`);
      if (this.sequence > 0 && columns.parent !== this.digest)
        problems.push(`Checkpoint ${columns.sequence} does not name its parent's digest`);
      this.sequence = columns.sequence;
      this.digest = row.hash;
      return problems;
    },
  };
}

function addEntry(fold: Refold, entry: JournalEntry): void {
  const { kind, body } = entry;
  fold.run = stepRun(fold.run, entry);
  const effect = stepEffect((key) => fold.effects.get(key), entry);
  if (effect !== null) fold.effects.set(effect.key, effect);
  switch (kind) {
    case "lease.taken":
      fold.epoch = entry.epoch;
      fold.lease = body["owner"] ?? null;
      break;
    case "lease.released":
      fold.lease = null;
      break;
    case "tag.added":
      fold.tags.set(String(body["name"]), Number(body["sequence"]));
      break;
    case "tag.removed":
      fold.tags.delete(String(body["name"]));
      break;
    case "checkpoint.dropped":
      for (const drop of list(body["drops"]))
        fold.dropped.set(Number(field(drop, "sequence")), { at: entry.at, why: String(field(drop, "why")) });
      break;
    case "checkpoint.quarantined":
      for (const sequence of list(body["sequences"])) {
        fold.quarantined.set(Number(sequence), { entry: entry.entry, reason: String(body["reason"]) });
      }
      break;
    default:
      break;
  }
}

/** What the tables say otherwise. Only inside the read that saw the end of the run. */
export function compareFold(
  handle: Handle,
  books: CheckpointBooks,
  effects: Effects,
  walk: { readonly row: RunRow; readonly fold: Refold },
): readonly string[] {
  const { fold } = walk;
  const { no } = walk.row;
  // The row may have changed since the walk began.
  const row = handle.runs.byNumber(no) ?? walk.row;
  const problems: string[] = [];
  const tags = [...books.tags.bySequence(no)].flatMap(([sequence, names]) =>
    names.map((name) => [name, sequence] as const),
  );
  same("The tags", new Map(tags), fold.tags);
  same("The ledger of effects", new Map(effects.list(no).map((effect) => [effect.key, effect])), fold.effects);
  const stones = books.tombstones
    .list(no)
    .map((stone) => [stone.sequence, { at: new Date(stone.at).toISOString(), why: stone.why }] as const);
  same("The tombstones", new Map(stones), fold.dropped);
  same("The quarantine", books.quarantine.list(no), fold.quarantined);
  if (!sameJson(foldOf(row), fold.run)) problems.push("The run's state differs from its journal");
  if (row.epoch !== fold.epoch) problems.push(`The run's epoch is ${row.epoch}, its journal says ${fold.epoch}`);
  if (row.dropped !== fold.dropped.size)
    problems.push(`The run counts ${row.dropped} dropped checkpoints, its journal ${fold.dropped.size}`);
  if (!sameJson(leaseRecord(row), fold.lease)) problems.push("The run's lease differs from its journal");
  return problems;

  function same<K, V>(what: string, table: ReadonlyMap<K, V>, folded: ReadonlyMap<K, V>): void {
    for (const [key, value] of folded) {
      if (!sameJson(table.get(key), value)) problems.push(`${what} differ from the journal at ${String(key)}`);
    }
    for (const key of table.keys())
      if (!folded.has(key)) problems.push(`${what} have ${String(key)}, which the journal has not`);
  }
}

function leaseRecord(row: RunRow): Json {
  if (row.lease === null) return null;
  const { host, pid, started, boot, label } = row.lease.owner;
  return { host, pid, started, boot, label, epoch: row.lease.epoch };
}

/** Both sides are plain data of one shape; the order of keys is all that may differ. */
function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const left = Object.entries(a);
  const right = new Map<string, unknown>(Object.entries(b));
  return left.length === right.size && left.every(([key, value]) => right.has(key) && sameJson(value, right.get(key)));
}

function list(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function field(value: Json, key: string): unknown {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

import type { DatabaseSync } from "node:sqlite";
import { type Row, bytes, fromHex, integer, integerOrNull } from "./columns.ts";
import { type Frame, readFrame, readPlace, splitFrames } from "./pack/frames.ts";
import { createGathered } from "./pack/gathered.ts";
import { COLUMNS, logRow, sealOf } from "./log-row.ts";
import type { EntryKind } from "@holdfast/core/journal";
import type { Digest } from "@holdfast/core/json";
import type { PlaneFacts } from "@holdfast/core/store-commit";
import type { Trigger } from "@holdfast/core/checkpoint";

/** One journal entry as the log keeps it. */
export interface LogRow {
  readonly pos: number;
  readonly run: number;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: number;
  readonly epoch: number;
  readonly hash: Digest;
  /** null for every kind but "checkpoint". */
  readonly checkpoint: CheckpointColumns | null;
}

export interface CheckpointColumns extends PlaneFacts {
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly name: string | null;
  /** Id of the parent where it is not simply the checkpoint before. */
  readonly origin: string | null;
  readonly parent: Digest | null;
  readonly root: Digest;
  readonly logical: number;
  readonly added: number;
}

/** Where an entry stands; `sequence` of a checkpoint. */
export interface LogPlace {
  readonly pos: number;
  readonly run: number;
  readonly entry: number;
  readonly sequence: number | null;
}

export interface Log {
  /** The body is the text of an ordinary entry, the root of a checkpoint. */
  insert(row: LogRow, body: string | Uint8Array): void;
  /** Bytes of a text that is to be inserted next, as root of a checkpoint. */
  stage(text: string): Uint8Array;
  /**
   * From now on what is inserted goes into rows of frames: "single", at once; "together", with all that follows, in as few
   * rows as possible, when `write` is called. One row is written by one statement, without a transaction around it.
   */
  gather(how: "single" | "together"): void;
  /** Ends it: what takes more than one statement is written in a transaction, by `transact`. */
  write(transact: (work: () => void) => void): void;
  /** Ends it; what was not written yet is let go. */
  discard(): void;
  /** Without the body. */
  get(pos: number): LogRow | undefined;
  hash(pos: number): Digest | undefined;
  /** Text of an ordinary entry, root of a checkpoint, null of a dropped one. */
  body(pos: number): string | Uint8Array | null;
  /** Newest position; 0 in an empty log. */
  last(): number;
  /** In order of commit, from `after` (exclusive) on, of every run. */
  from(after: number, limit: number): readonly LogRow[];
  /** The same, of all that is there. */
  placesFrom(after: number): Iterable<LogPlace>;
  empty(pos: number): void;
  /** Others may have changed what is remembered. */
  forget(): void;
}

/** The kind of a row that holds several entries; `entry` counts them, `logical` the checkpoints among them. */
const FRAMES = "frames";
/** Checkpoints in the rows that a query speaks of. */
export const CHECKPOINTS = `coalesce(sum(CASE kind WHEN '${FRAMES}' THEN logical ELSE sequence IS NOT NULL END), 0)`;
/** A body is loaded only where the entries lie in it. */
const HELD = `CASE kind WHEN '${FRAMES}' THEN body END AS frames`;

export function createLog(db: DatabaseSync): Log {
  const insertEntry = db.prepare(
    "INSERT INTO log (pos, run, entry, kind, at, epoch, seal, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  // What is absent as a rule is not bound as a rule.
  const insertPlain = db.prepare(
    `INSERT INTO log (pos, run, entry, kind, at, epoch, seal, sequence, trigger, stage, iteration, logical, added, body)
     VALUES (?, ?, ?, 'checkpoint', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertFull = db.prepare(
    `INSERT INTO log (pos, run, entry, kind, at, epoch, seal, sequence, trigger, stage, iteration, logical, added, name,
       score, tree, origin, body) VALUES (?, ?, ?, 'checkpoint', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertFrames = db.prepare(
    `INSERT INTO log (pos, run, entry, kind, at, epoch, seal, logical, body) VALUES (?, 0, ?, '${FRAMES}', ?, 0, x'', ?, ?)`,
  );
  const at = db.prepare(`SELECT ${COLUMNS}, ${HELD} FROM log WHERE pos <= ? ORDER BY pos DESC LIMIT 1`);
  const bodyAt = db.prepare("SELECT pos, kind, entry, body FROM log WHERE pos <= ? ORDER BY pos DESC LIMIT 1");
  const from = db.prepare(
    `SELECT ${COLUMNS}, ${HELD} FROM log
      WHERE pos >= coalesce((SELECT max(pos) FROM log WHERE pos <= ?), 0) ORDER BY pos LIMIT ?`,
  );
  const places = db.prepare(
    `SELECT pos, kind, run, entry, sequence, ${HELD} FROM log
      WHERE pos >= coalesce((SELECT max(pos) FROM log WHERE pos <= ?), 0) ORDER BY pos`,
  );
  const last = db.prepare("SELECT pos, kind, entry FROM log ORDER BY pos DESC LIMIT 1");
  const remove = db.prepare("DELETE FROM log WHERE pos = ?");
  const empty = db.prepare("UPDATE log SET body = NULL WHERE pos = ?");
  let recent: Batch | undefined;

  function insertRow({ pos, run, entry, kind, at: ms, epoch, hash, checkpoint: c }: LogRow, body: string | Uint8Array) {
    if (c === null) {
      insertEntry.run(pos, run, entry, kind, ms, epoch, fromHex(hash), body);
      return;
    }
    const { sequence, trigger, stage, iteration, logical, added, name, score, tree, origin } = c;
    const seal = sealOf(hash, c.root, c.parent);
    if (name === null && score === null && tree === null && origin === null) {
      insertPlain.run(pos, run, entry, ms, epoch, seal, sequence, trigger, stage, iteration, logical, added, body);
    } else {
      // prettier-ignore
      insertFull.run(pos, run, entry, ms, epoch, seal, sequence, trigger, stage, iteration, logical, added, name, score, tree, origin, body);
    }
  }

  const gathered = createGathered({
    row: insertRow,
    frames: (first, ms, frames) =>
      void insertFrames.run(first, frames.count(), ms, frames.checkpoints(), frames.bytes()),
  });

  /** The row's frames, when it is a row of frames. */
  function batchOf(row: Row, body: "frames" | "body"): Batch | undefined {
    if (row["kind"] !== FRAMES) return undefined;
    const first = integer(row, "pos");
    return { first, frames: splitFrames(bytes(row, body), { first, count: integer(row, "entry") }) };
  }

  /** Entries that lie together are read one after the other as a rule. */
  function recentAt(pos: number): Frame | undefined {
    if (pos >= gathered.first()) throw new Error("an entry is read before it is written");
    return recent?.frames[pos - recent.first];
  }

  function get(pos: number): LogRow | undefined {
    const frame = recentAt(pos);
    if (frame !== undefined) return readFrame(frame, pos).row;
    const row = at.get(pos);
    if (row === undefined) return undefined;
    const batch = batchOf(row, "frames");
    if (batch === undefined) return integer(row, "pos") === pos ? logRow(row) : undefined;
    recent = batch;
    const found = batch.frames[pos - batch.first];
    return found === undefined ? undefined : readFrame(found, pos).row;
  }

  /** Rows of their own instead, each of which can be changed. */
  function spread(pos: number): void {
    const row = at.get(pos);
    const batch = row === undefined ? undefined : batchOf(row, "frames");
    if (batch === undefined) return;
    recent = undefined;
    remove.run(batch.first);
    for (const [i, frame] of batch.frames.entries()) {
      const { row: own, body } = readFrame(frame, batch.first + i);
      insertRow(own, body);
    }
  }

  return {
    insert: gathered.insert,
    stage: gathered.stage,
    gather: gathered.begin,
    write: gathered.write,
    discard: gathered.discard,
    get,
    hash: (pos) => get(pos)?.hash,
    body(pos) {
      const frame = recentAt(pos);
      if (frame !== undefined) return readFrame(frame, pos).body;
      const row = bodyAt.get(pos);
      if (row === undefined) return null;
      const batch = batchOf(row, "body");
      if (batch === undefined) {
        const { body } = row;
        if (row["pos"] !== pos) return null;
        return typeof body === "string" || body instanceof Uint8Array ? body : null;
      }
      recent = batch;
      const found = batch.frames[pos - batch.first];
      return found === undefined ? null : readFrame(found, pos).body;
    },
    last() {
      const row = last.get();
      if (row === undefined) return 0;
      return integer(row, "pos") + (row["kind"] === FRAMES ? integer(row, "entry") - 1 : 0);
    },
    from(after, limit) {
      const found: LogRow[] = [];
      // One more: the first may have nothing but what was before.
      for (const row of from.iterate(after, limit + 1)) {
        const batch = batchOf(row, "frames");
        if (batch === undefined) found.push(logRow(row));
        else {
          for (const [i, frame] of batch.frames.entries()) {
            if (batch.first + i > after) found.push(readFrame(frame, batch.first + i).row);
          }
        }
        if (found.length > limit) break;
      }
      return found.filter(({ pos }) => pos > after).slice(0, limit);
    },
    *placesFrom(after) {
      for (const row of places.iterate(after)) {
        const batch = batchOf(row, "frames");
        const found =
          batch === undefined ? [placeOf(row)] : batch.frames.map((frame, i) => readPlace(frame, batch.first + i));
        for (const place of found) if (place.pos > after) yield place;
      }
    },
    empty(pos) {
      spread(pos);
      empty.run(pos);
    },
    forget() {
      recent = undefined;
    },
  };
}

interface Batch {
  readonly first: number;
  readonly frames: readonly Frame[];
}

function placeOf(row: Row): LogPlace {
  return {
    pos: integer(row, "pos"),
    run: integer(row, "run"),
    entry: integer(row, "entry"),
    sequence: integerOrNull(row, "sequence"),
  };
}

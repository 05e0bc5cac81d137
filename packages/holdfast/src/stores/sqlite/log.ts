import type { DatabaseSync } from "node:sqlite";
import { bytes, fromHex, integer, integerOrNull, realOrNull, text, textOrNull, toHex } from "./columns.ts";
import type { Row } from "./columns.ts";
import { isEntryKind, isTrigger } from "./vocabulary.ts";
import { HoldfastError } from "../../core/error.ts";
import type { EntryKind } from "../../core/journal.ts";
import type { Digest } from "../../core/json.ts";
import type { PlaneFacts } from "../../core/store-arguments.ts";
import type { Trigger } from "../../core/trigger.ts";

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

export interface Log {
  insertEntry(row: Omit<LogRow, "checkpoint">, body: string): void;
  insertCheckpoint(row: Omit<LogRow, "checkpoint" | "kind">, checkpoint: CheckpointColumns, root: Uint8Array): void;
  /** Without the body. */
  get(pos: number): LogRow | undefined;
  hash(pos: number): Digest | undefined;
  /** Text of an ordinary entry, root of a checkpoint, null of a dropped one. */
  body(pos: number): string | Uint8Array | null;
  /** Newest position; 0 in an empty log. */
  last(): number;
  /** In order of commit, from `after` (exclusive) on, of every run. */
  from(after: number, limit: number): readonly LogRow[];
  empty(pos: number): void;
}

const COLUMNS =
  "pos, run, entry, kind, at, epoch, seal, sequence, trigger, name, stage, iteration, score, tree, origin, logical, added";

export function createLog(db: DatabaseSync): Log {
  const insertEntry = db.prepare(
    "INSERT INTO log (pos, run, entry, kind, at, epoch, seal, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  // What is absent as a rule is not bound as a rule: this statement is half the cost of a save in a group.
  const insertPlain = db.prepare(
    `INSERT INTO log (pos, run, entry, kind, at, epoch, seal, sequence, trigger, stage, iteration, logical, added, body)
     VALUES (?, ?, ?, 'checkpoint', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertFull = db.prepare(
    `INSERT INTO log (pos, run, entry, kind, at, epoch, seal, sequence, trigger, stage, iteration, logical, added, name,
       score, tree, origin, body) VALUES (?, ?, ?, 'checkpoint', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const get = db.prepare(`SELECT ${COLUMNS} FROM log WHERE pos = ?`);
  const hash = db.prepare("SELECT seal FROM log WHERE pos = ?");
  const from = db.prepare(`SELECT ${COLUMNS} FROM log WHERE pos > ? ORDER BY pos LIMIT ?`);
  const body = db.prepare("SELECT body FROM log WHERE pos = ?");
  const last = db.prepare("SELECT max(pos) AS pos FROM log");
  const empty = db.prepare("UPDATE log SET body = NULL WHERE pos = ?");
  return {
    insertEntry({ pos, run, entry, kind, at, epoch, hash: own }, content) {
      insertEntry.run(pos, run, entry, kind, at, epoch, fromHex(own), content);
    },
    insertCheckpoint({ pos, run, entry, at, epoch, hash: own }, c, root) {
      const { sequence, trigger, stage, iteration, logical, added, name, score, tree, origin } = c;
      const seal = sealOf(own, c.root, c.parent);
      if (name === null && score === null && tree === null && origin === null) {
        insertPlain.run(pos, run, entry, at, epoch, seal, sequence, trigger, stage, iteration, logical, added, root);
      } else {
        insertFull.run(
          pos,
          run,
          entry,
          at,
          epoch,
          seal,
          sequence,
          trigger,
          stage,
          iteration,
          logical,
          added,
          name,
          score,
          tree,
          origin,
          root,
        );
      }
    },
    get(pos) {
      const row = get.get(pos);
      return row === undefined ? undefined : logRow(row);
    },
    hash(pos) {
      const row = hash.get(pos);
      return row === undefined ? undefined : sealed(row, HASH);
    },
    body(pos) {
      const value = body.get(pos)?.["body"];
      return typeof value === "string" || value instanceof Uint8Array ? value : null;
    },
    last: () => integerOrNull(last.get() ?? { pos: null }, "pos") ?? 0,
    from: (after, limit) => from.all(after, limit).map(logRow),
    empty: (pos) => void empty.run(pos),
  };
}

function logRow(row: Row): LogRow {
  const kind = text(row, "kind");
  if (!isEntryKind(kind)) throw unknownWord("kind", kind);
  return {
    pos: integer(row, "pos"),
    run: integer(row, "run"),
    entry: integer(row, "entry"),
    kind,
    at: integer(row, "at"),
    epoch: integer(row, "epoch"),
    hash: sealed(row, HASH),
    checkpoint: kind === "checkpoint" ? checkpointColumns(row) : null,
  };
}

function checkpointColumns(row: Row): CheckpointColumns {
  const trigger = text(row, "trigger");
  if (!isTrigger(trigger)) throw unknownWord("trigger", trigger);
  return {
    sequence: integer(row, "sequence"),
    trigger,
    name: textOrNull(row, "name"),
    stage: text(row, "stage"),
    iteration: realOrNull(row, "iteration") ?? 0,
    score: realOrNull(row, "score"),
    tree: textOrNull(row, "tree"),
    origin: textOrNull(row, "origin"),
    parent: bytes(row, "seal").length > PARENT * DIGEST_BYTES ? sealed(row, PARENT) : null,
    root: sealed(row, ROOT),
    logical: integer(row, "logical"),
    added: integer(row, "added"),
  };
}

const DIGEST_BYTES = 32;
/** Places of the digests in a seal. */
const HASH = 0;
const ROOT = 1;
const PARENT = 2;

function sealOf(hash: Digest, root: Digest, parent: Digest | null): Buffer {
  const seal = Buffer.allocUnsafe((parent === null ? 2 : 3) * DIGEST_BYTES);
  seal.write(hash, 0, "hex");
  seal.write(root, DIGEST_BYTES, "hex");
  if (parent !== null) seal.write(parent, 2 * DIGEST_BYTES, "hex");
  return seal;
}

function sealed(row: Row, place: number): Digest {
  const digest = bytes(row, "seal").subarray(place * DIGEST_BYTES, (place + 1) * DIGEST_BYTES);
  if (digest.length === DIGEST_BYTES) return toHex(digest);
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: "The seal of a journal entry is cut short",
    hint: "Run `holdfast verify` to see what is still whole.",
  });
}

function unknownWord(column: string, word: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `${JSON.stringify(word)} is not a ${column} of a journal entry`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { column, word },
  });
}

// Rows of the tables as the nouns of the core: runs, leases, effects, entries and checkpoints. A row that is none of them is damage.

import { HoldfastError } from "@holdfast/platform/error";
import {
  type CheckpointId,
  type CheckpointParent,
  type CheckpointSummary,
  TRIGGERS,
  type Trigger,
} from "../checkpoint.ts";
import type { Effect, EffectState } from "../effects.ts";
import { type CheckpointHead, ENTRY_KINDS, type EntryKind, type JournalEntry, entryHash } from "../journal.ts";
import { type Digest, type Json, type JsonObject, deepFreeze, sha256 } from "../json.ts";
import type { Lease } from "../lease.ts";
import type { Run } from "../run.ts";
import { type SignalRecord, type SignalState, type StoredSignal, parseSignal, salvageSignal } from "../signal.ts";
import { NEW_RUN, type RunFold, parseRunFold } from "../status.ts";
import { type ReadTransaction, type Row, type SqlValue, allIn } from "./driver.ts";
import { bytes, checksum, digest, digestOrNull, integer, isoTime, text, textOrNull } from "./schema.ts";
import { decodeValue, unpackText } from "../chunks.ts";
import { canonicalJson } from "../values.ts";

export function corrupt(what: string, data: Readonly<Record<string, unknown>> = {}): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: what,
    hint: "Run `holdfast verify` to see what is still whole.",
    data,
  });
}

function isRecord(value: unknown): value is Readonly<Record<string, Json>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(json: string, what: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw corrupt(`${what} is damaged`);
  }
}

/** The chain begins with the digest of this record, so a shape check is enough here; verify proves the content. */
export function parseBirth(json: string): Run {
  const value = parse(json, "A run's birth record");
  if (isBirth(value)) return deepFreeze(value);
  throw corrupt("A run's birth record is damaged");
}

function isBirth(value: unknown): value is Run {
  return (
    isRecord(value) &&
    typeof value["id"] === "string" &&
    typeof value["createdAt"] === "string" &&
    typeof value["workflow"] === "string" &&
    isRecord(value["work"]) &&
    isRecord(value["labels"]) &&
    "forkedFrom" in value
  );
}

/** Parsed only where it is asked for: a damaged state must not keep the run itself from being read. */
export function parseState(state: string | null, run: string): RunFold {
  if (state === null) return NEW_RUN;
  return parseRunFold(parse(state, `The state of run ${run}`), `The state of run ${run}`);
}

const LEASE_COLUMNS =
  "l.run, l.epoch, l.token, l.host, l.pid, l.started, l.boot, l.label, l.taken, l.heartbeat, l.slot";

export async function readLease(
  tx: ReadTransaction,
  run: { readonly number: number; readonly id: string },
): Promise<Lease | null> {
  const [row] = await tx.all(`SELECT ${LEASE_COLUMNS} FROM leases l WHERE l.run = ?`, [run.number]);
  return row === undefined ? null : leaseOf(row, run.id);
}

/** By the ids of their runs. */
export async function readLeasesOf(tx: ReadTransaction, runs: readonly string[]): Promise<ReadonlyMap<string, Lease>> {
  const sql = `SELECT r.id, ${LEASE_COLUMNS} FROM leases l JOIN runs r ON r.run = l.run WHERE r.id IN (??)`;
  return new Map((await allIn(tx, sql, runs)).map((row) => [text(row, "id"), leaseOf(row, text(row, "id"))]));
}

export async function readLeases(tx: ReadTransaction): Promise<readonly Lease[]> {
  const rows = await tx.all(`SELECT r.id, ${LEASE_COLUMNS} FROM leases l JOIN runs r ON r.run = l.run`);
  return rows.map((row) => leaseOf(row, text(row, "id")));
}

function leaseOf(row: Row, run: string): Lease {
  const slot = textOrNull(row, "slot");
  return deepFreeze({
    run,
    epoch: integer(row, "epoch"),
    owner: {
      token: text(row, "token"),
      host: text(row, "host"),
      pid: integer(row, "pid"),
      started: textOrNull(row, "started"),
      boot: textOrNull(row, "boot"),
      label: text(row, "label"),
    },
    takenAt: text(row, "taken"),
    heartbeatAt: text(row, "heartbeat"),
    ...(slot === "working" || slot === "waiting" ? { slot } : {}),
  });
}

const SIGNALS =
  "SELECT r.id AS name, s.id, s.kind, s.state, s.body, s.checksum FROM signals s JOIN runs r ON r.run = s.run";

/** Of one run, or of all. A damaged signal is listed as what its holder must take it for. */
export async function readSignals(tx: ReadTransaction, number: number | null): Promise<readonly StoredSignal[]> {
  const rows = number === null ? await tx.all(SIGNALS) : await tx.all(`${SIGNALS} WHERE s.run = ?`, [number]);
  return rows.flatMap((row) => {
    const record = signalRecord(row);
    const signal = parseSignal(record) ?? salvageSignal(record);
    return signal === null ? [] : [deepFreeze({ ...signal, state: signalState(row) ?? "pending" })];
  });
}

/** Problems of the signals that cannot be read as they were written. */
export async function damagedSignals(tx: ReadTransaction): Promise<readonly string[]> {
  const damaged = (await tx.all(SIGNALS)).filter(
    (row) => signalState(row) === null || parseSignal(signalRecord(row)) === null,
  );
  return damaged.map((row) => `The signal ${text(row, "id")} to run ${text(row, "name")} is damaged`);
}

function signalState(row: Row): SignalState | null {
  const state = text(row, "state");
  return state === "pending" || state === "taken" ? state : null;
}

/** A body that was changed is left out. */
function signalRecord(row: Row): SignalRecord {
  const [run, id, kind, body] = [text(row, "name"), text(row, "id"), text(row, "kind"), text(row, "body")];
  return { run, id, kind, body: integer(row, "checksum") === checksum(run, id, kind, body) ? body : "" };
}

/** Without the token, which only its handle may know. */
export function ownerRecord(lease: Lease): JsonObject {
  const { host, pid, started, boot, label } = lease.owner;
  return { host, pid, started, boot, label, epoch: lease.epoch };
}

export function effectValues(number: number, effect: Effect): readonly SqlValue[] {
  const { key, kind, target, payload, state } = effect;
  const { kind: name, at, ...outcome } = state;
  return [number, key, kind, target, payload, name, at, canonicalJson(outcome)];
}

export function effectOf(row: Row, run: string): Effect {
  const kind = text(row, "state");
  const outcome = parse(text(row, "outcome"), "The outcome of an effect");
  const state: unknown = isRecord(outcome) ? { kind, at: text(row, "at"), ...outcome } : null;
  if (!isEffectState(state)) throw corrupt(`The ledger of effects of ${run} is damaged`);
  return deepFreeze({
    run,
    key: text(row, "key"),
    kind: text(row, "kind"),
    target: text(row, "target"),
    payload: text(row, "payload"),
    state,
  });
}

function isEffectState(state: unknown): state is EffectState {
  if (!isRecord(state)) return false;
  switch (state["kind"]) {
    case "intended":
      return true;
    case "unknown":
    case "failed":
      return typeof state["reason"] === "string";
    case "done":
    case "undoing":
      return typeof state["adopted"] === "boolean" && "receipt" in state;
    case "undone":
      return typeof state["adopted"] === "boolean" && "receipt" in state && "undo" in state;
    default:
      return false;
  }
}

export const EFFECT_COLUMNS = "run, key, kind, target, payload, state, at, outcome";

/** An entry of the journal without its body. */
export interface EntryRow {
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  readonly epoch: number;
  readonly hash: Digest;
  /** Canonical JSON; null: it is long, and `content` holds it. */
  readonly body: string | null;
  readonly content: Uint8Array | null;
}

export const ENTRY_COLUMNS = "entry, kind, at, epoch, hash, body, content";
const KINDS: ReadonlySet<string> = new Set(ENTRY_KINDS);

export function isEntryKind(word: string): word is EntryKind {
  return KINDS.has(word) || word.startsWith("x.");
}

export function entryRow(row: Row): EntryRow {
  const kind = text(row, "kind");
  if (!isEntryKind(kind)) throw corrupt(`${JSON.stringify(kind)} is not a kind of journal entry`);
  return {
    entry: integer(row, "entry"),
    kind,
    at: isoTime(row, "at"),
    epoch: integer(row, "epoch"),
    hash: digest(row, "hash"),
    body: textOrNull(row, "body"),
    content: row["content"] === null ? null : bytes(row, "content"),
  };
}

/** The canonical JSON that the entry's hash covers. */
export async function bodyText(tx: ReadTransaction, row: EntryRow): Promise<string> {
  if (row.body !== null) return row.body;
  if (row.content === null || row.kind === "checkpoint")
    throw corrupt(`The body of journal entry ${row.entry} is gone`);
  return canonicalJson(await decodeValue(unpackText(row.content), (digests) => loadChunks(tx, digests)));
}

export async function journalEntry(tx: ReadTransaction, run: string, row: EntryRow): Promise<JournalEntry> {
  const { entry, kind, at, epoch, hash } = row;
  const json = await bodyText(tx, row);
  const body = parse(json, `The body of journal entry ${entry}`);
  if (!isRecord(body)) throw corrupt(`The body of journal entry ${entry} is damaged`, { entry });
  const own = kind === "checkpoint" ? hash : sha256(json);
  return deepFreeze({ run, entry, kind, at, epoch, body, digest: own, hash });
}

export async function loadChunks(
  tx: ReadTransaction,
  digests: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const keys = digests.map((one) => Buffer.from(one, "base64url"));
  const rows = await allIn(tx, "SELECT digest, bytes FROM chunks WHERE digest IN (??)", keys);
  return new Map(
    rows.map((row) => [Buffer.from(bytes(row, "digest")).toString("base64url"), unpackText(bytes(row, "bytes"))]),
  );
}

/** A checkpoint's row joined with its entry and the hash before it. */
export interface CheckpointRow {
  readonly entry: EntryRow;
  readonly head: CheckpointHead;
  readonly parent: CheckpointParent | null;
  readonly quarantined: boolean;
}

/** Of `c`, `e` and `p`: checkpoint, entry, and the entry before. */
export const CHECKPOINT_ROWS =
  "SELECT c.sequence, c.cause, c.stage, c.quarantined, e.entry, e.kind, e.at, e.epoch, e.hash, e.body, NULL AS content, p.hash AS previous FROM checkpoints c LEFT JOIN entries e ON e.run = c.run AND e.entry = c.entry LEFT JOIN entries p ON p.run = c.run AND p.entry = c.entry - 1";

/** The same, with the planes: for a checkpoint that is read whole. */
export const WHOLE_ROWS = CHECKPOINT_ROWS.replace("NULL AS content", "e.content");

const TRIGGER_WORDS: ReadonlySet<string> = new Set(TRIGGERS);

function isTrigger(word: unknown): word is Trigger {
  return typeof word === "string" && TRIGGER_WORDS.has(word);
}

/** STORE_CORRUPT when anything in the row was changed: lists are checked too, not only what is read whole. */
export function checkpointRow(row: Row, run: string): CheckpointRow {
  const sequence = integer(row, "sequence");
  const id = checkpointId(run, sequence);
  if (row["hash"] === null) throw corrupt(`The journal entry of checkpoint ${id} is gone`, { run, sequence });
  const entry = entryRow(row);
  const { head, parent } = parseCheckpointBody(entry.body ?? "", id);
  const previous = digestOrNull(row, "previous");
  const link = { run, entry: entry.entry, kind: entry.kind, at: entry.at, epoch: entry.epoch, body: entry.body ?? "" };
  const isWhole =
    previous !== null &&
    entryHash(previous, link) === entry.hash &&
    head.sequence === sequence &&
    head.trigger === text(row, "cause") &&
    head.stage === text(row, "stage");
  if (!isWhole) throw corrupt(`The record of checkpoint ${id} does not give its digest`, { run, sequence });
  return { entry, head, parent, quarantined: row["quarantined"] !== null };
}

export function parseCheckpointBody(
  json: string,
  id: string,
): { readonly head: CheckpointHead; readonly parent: CheckpointParent | null } {
  const body = parse(json, `The record of checkpoint ${id}`);
  if (!isRecord(body) || !isCheckpointHead(body)) throw corrupt(`The record of checkpoint ${id} is damaged`);
  const { parent } = body;
  return { head: body, parent: parent === null || parent === undefined ? null : parseParent(parent) };
}

function isCheckpointHead(
  body: Readonly<Record<string, Json>>,
): body is Readonly<Record<string, Json>> & CheckpointHead {
  return (
    typeof body["sequence"] === "number" &&
    isTrigger(body["trigger"]) &&
    typeof body["stage"] === "string" &&
    typeof body["iteration"] === "number" &&
    typeof body["logical"] === "number" &&
    typeof body["added"] === "number" &&
    typeof body["root"] === "string" &&
    "name" in body &&
    "score" in body &&
    "tree" in body
  );
}

function parseParent(value: Json): CheckpointParent {
  const { id, digest: own }: Readonly<Record<string, unknown>> = isRecord(value) ? value : {};
  const at = typeof id === "string" ? id.lastIndexOf("@") : -1;
  if (typeof id !== "string" || at <= 0 || typeof own !== "string")
    throw corrupt("The parent of a checkpoint is damaged");
  return Object.freeze({ id: checkpointId(id.slice(0, at), Number(id.slice(at + 1))), digest: own });
}

export function checkpointId(run: string, sequence: number): CheckpointId {
  return `${run}@${sequence}`;
}

export function summaryOf(
  run: string,
  row: Pick<CheckpointRow, "head" | "parent" | "quarantined"> & {
    readonly entry: Pick<EntryRow, "entry" | "at" | "hash">;
  },
  tags: readonly string[],
): CheckpointSummary {
  const { head, parent, entry } = row;
  return Object.freeze({
    id: checkpointId(run, head.sequence),
    run,
    sequence: head.sequence,
    entry: entry.entry,
    parent: parent === null ? null : Object.freeze(parent),
    trigger: head.trigger,
    name: head.name,
    createdAt: entry.at,
    stage: head.stage,
    iteration: head.iteration,
    score: head.score,
    tree: head.tree,
    tags: Object.freeze([...tags]),
    size: Object.freeze({ logical: head.logical, added: head.added }),
    digest: entry.hash,
    quarantined: row.quarantined,
  });
}

// One whole run out of a store and into another, verbatim: the hash chain covers id, times, epochs and bodies, so nothing in it can change.

import { hash as hashOf } from "node:crypto";
import { HoldfastError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import {
  type EncodedValue,
  createValueMemory,
  decodeValue,
  encodeValue,
  packText,
  parseJson,
  unpackText,
} from "../chunks.ts";
import type { ValueMemory } from "../chunks.ts";
import { type EntryKind, type JournalEntry, birthDigest, birthRecord, entryHash } from "../journal.ts";
import { type Digest, type JsonObject, deepFreeze, isJsonObject, sha256 } from "../json.ts";
import { DEFAULT_STALE_AFTER_MS, type Lease, planLease } from "../lease.ts";
import { parsePlanes } from "../checkpoint.ts";
import { RUN_ID, type Run, checkTagName } from "../run.ts";
import { NEW_RUN } from "../status.ts";
import { claimOf, planeFacts } from "../store-commit.ts";
import { type CommitBody, type StoredEntry, type StoredRun, leaseHeld, runExists } from "../store.ts";
import { canonicalJson } from "../values.ts";
import { COMPRESS_ROOT_FROM, PUT_EFFECT, captureForSql, commit, contentOf } from "./changes.ts";
import type { ReadTransaction } from "./driver.ts";
import { type Fold, addToFold, newFold } from "./journal-fold.ts";
import { ownerLiveness, placeOf, putLease, releaseLease, takeLease } from "./leases.ts";
import {
  ENTRY_COLUMNS,
  bodyText,
  corrupt,
  effectValues,
  entryRow,
  isEntryKind,
  loadChunks,
  parseBirth,
  parseCheckpointBody,
} from "./records.ts";
import { digest, integer } from "./schema.ts";
import { type EntryFacts, type Handle, type Head, type Job, type Writing, factsOf } from "./write.ts";

/** Every read is checked: a run that is damaged here cannot be exported as whole. */
export async function exportRun(tx: ReadTransaction, number: number, run: Run): Promise<StoredRun> {
  const chunks = new Map<string, string>();
  const entries: StoredEntry[] = [];
  let hash = birthDigest(run);
  for (const row of await tx.all(`SELECT ${ENTRY_COLUMNS} FROM entries WHERE run = ? ORDER BY entry`, [number])) {
    const parsed = entryRow(row);
    const { entry, kind, at, epoch } = parsed;
    const body = await bodyText(tx, parsed);
    const planes = kind === "checkpoint" && parsed.content !== null ? unpackText(parsed.content) : null;
    const own = entryHash(hash, { run: run.id, entry, kind, at, epoch, body });
    if (own !== parsed.hash || entry !== entries.length + 1)
      throw corrupt(`The journal of ${run.id} breaks at entry ${entry}`);
    if (planes !== null) await collectChunks(tx, planes, chunks);
    entries.push({ kind, at, epoch, body, planes });
    hash = own;
  }
  return { birth: birthRecord(run), head: hash, entries, chunks: [...chunks.values()] };
}

async function collectChunks(tx: ReadTransaction, root: string, chunks: Map<string, string>): Promise<void> {
  await decodeValue(root, async (digests) => {
    const missing = digests.filter((one) => !chunks.has(one));
    const found = await loadChunks(tx, missing);
    // In the order of the references: a database returns rows in any order.
    for (const name of missing) {
      const text = found.get(name);
      if (text !== undefined) chunks.set(name, text);
    }
    return new Map(digests.flatMap((one) => [[one, chunks.get(one) ?? ""]] as const));
  });
}

/** A stored run whose every claim was checked against its content; nothing was written yet. */
export interface CheckedRun {
  readonly run: Run;
  readonly head: Digest;
  readonly fold: Fold;
  readonly rows: readonly CheckedRow[];
}

interface CheckedRow {
  readonly kind: EntryKind;
  readonly hash: Digest;
  readonly entry: StoredEntry;
  readonly body: JsonObject;
  readonly about: EntryFacts;
  readonly checkpoint: CheckedCheckpoint | null;
}

interface CheckedCheckpoint {
  readonly sequence: number;
  readonly trigger: string;
  readonly stage: string;
  readonly size: number;
  /** null: it was dropped. */
  readonly planes: EncodedValue | null;
}

/**
 * Recomputes chain, folds and planes. FORMAT_DAMAGED with the entry. The planes are encoded again, so that what is written is what this
 * store would have written, whatever the chunks of the file look like.
 */
export async function checkStoredRun(stored: StoredRun): Promise<CheckedRun> {
  const run = await checked(0, async () => parseRun(stored.birth));
  const chunks = new Map(stored.chunks.map((text) => [chunkName(text), text]));
  const memory = createValueMemory();
  const fold = newFold();
  const rows: CheckedRow[] = [];
  let hash = birthDigest(run);
  for (const [i, entry] of stored.entries.entries()) {
    const number = i + 1;
    const { kind, at, epoch, body: text } = entry;
    await checked(number, async () => {
      if (!isEntryKind(kind)) throw corrupt(`${JSON.stringify(kind)} is not a kind of journal entry`);
      if (new Date(at).toISOString() !== at) throw corrupt("its time is not one");
      if (!Number.isSafeInteger(epoch) || epoch < 0) throw corrupt("its epoch is not a count");
      const body = parseJson(text);
      if (!isJsonObject(body) || canonicalJson(body) !== text) throw corrupt("its body is not canonical JSON");
      if (number === 1 && (kind !== "run.created" || text !== canonicalJson(birthRecord(run))))
        throw corrupt("the journal does not begin with the run's birth record");
      hash = entryHash(hash, { run: run.id, entry: number, kind, at, epoch, body: text });
      const isCheckpoint = kind === "checkpoint";
      if (!isCheckpoint && entry.planes !== null) throw corrupt("only a checkpoint has planes");
      if (!isCheckpoint)
        addToFold(
          fold,
          deepFreeze<JournalEntry>({ run: run.id, entry: number, kind, at, epoch, body, digest: sha256(text), hash }),
        );
      const checkpoint = isCheckpoint ? await checkCheckpoint({ run, entry, fold, hash, chunks, memory }) : null;
      const about =
        checkpoint === null ? factsOf(body) : { step: checkpoint.stage, started: null, summary: nameOf(body) };
      rows.push({ kind, hash, entry, body, about, checkpoint });
    });
  }
  await checked(rows.length, async () => {
    if (hash !== stored.head || rows.length === 0) throw corrupt("the journal does not end with its head");
    const known = new Map(
      rows.flatMap(({ checkpoint }) => (checkpoint === null ? [] : [[checkpoint.sequence, checkpoint]])),
    );
    for (const [name, sequence] of fold.tags)
      if (known.get(sequence) === undefined) throw corrupt(`the tag ${checkTagName(name)} names no checkpoint`);
    for (const name of fold.tags.keys()) checkTagName(name);
    for (const sequence of [...fold.dropped.keys(), ...fold.quarantined.keys()])
      if (!known.has(sequence)) throw corrupt(`checkpoint ${sequence} was dropped or quarantined and is not there`);
    for (const [sequence, { planes }] of known)
      if ((planes === null) !== fold.dropped.has(sequence))
        throw corrupt(`the planes of checkpoint ${sequence} do not agree with the journal`);
  });
  return { run, head: hash, fold, rows };
}

/** Every failure of a check is damage of the file: the code that checks it was written for the store's own rows. */
async function checked<T>(entry: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new HoldfastError({
      code: "FORMAT_DAMAGED",
      message: `The run is damaged ${entry === 0 ? "in its birth record" : `at journal entry ${entry}`}: ${why}`,
      hint: "Nothing was imported. Export the run again, or copy the file again.",
      data: { entry },
      cause: error,
    });
  }
}

function parseRun(birth: JsonObject): Run {
  const run = parseBirth(canonicalJson(birth));
  const { forkedFrom, work } = run;
  const isFork =
    forkedFrom === null || (/^[a-z0-9-]+@[1-9][0-9]*$/.test(forkedFrom.id) && /^[0-9a-f]{64}$/.test(forkedFrom.digest));
  const isWork =
    work.kind === "none" ||
    (work.kind === "issue" && Number.isSafeInteger(work.number)) ||
    (work.kind === "task" && typeof work.text === "string");
  if (!RUN_ID.test(run.id)) throw corrupt("its id is not a run id");
  if (!isFork || !isWork || new Date(run.createdAt).toISOString() !== run.createdAt)
    throw corrupt("it has another shape");
  if (canonicalJson(birthRecord(run)) !== canonicalJson(birth)) throw corrupt("it has fields that a run has not");
  return run;
}

async function checkCheckpoint(params: {
  readonly run: Run;
  readonly entry: StoredEntry;
  readonly fold: Fold;
  readonly hash: Digest;
  readonly chunks: ReadonlyMap<string, string>;
  readonly memory: ValueMemory;
}): Promise<CheckedCheckpoint> {
  const { entry, fold, chunks } = params;
  const { head, parent } = parseCheckpointBody(entry.body, `of ${params.run.id}`);
  const { sequence, trigger, stage, logical: size } = head;
  if (sequence !== fold.sequence + 1) throw corrupt(`checkpoint ${sequence} follows ${fold.sequence}`);
  if (fold.sequence > 0 && parent?.digest !== fold.digest) throw corrupt("the checkpoint does not name its parent");
  fold.sequence = sequence;
  fold.digest = params.hash;
  if (entry.planes === null) return { sequence, trigger, stage, size, planes: null };
  const value = await decodeValue(
    entry.planes,
    async (digests) => new Map(digests.flatMap((one) => pick(chunks, one))),
  );
  const planes = parsePlanes(value, `Checkpoint ${sequence}`);
  const facts = planeFacts(planes);
  const encoded = encodeValue(value, params.memory);
  const same =
    facts.stage === stage &&
    facts.iteration === head.iteration &&
    facts.score === head.score &&
    facts.tree === head.tree;
  if (!same || sha256(encoded.root) !== head.root || encoded.bytes !== size)
    throw corrupt("the planes do not give their digest");
  return { sequence, trigger, stage, size, planes: encoded };
}

/** As a chunk is named in a root. */
function chunkName(text: string): string {
  return hashOf("sha256", text, "base64url");
}

function pick(chunks: ReadonlyMap<string, string>, name: string): readonly (readonly [string, string])[] {
  const text = chunks.get(name);
  return text === undefined ? [] : [[name, text]];
}

function nameOf(body: JsonObject): string | null {
  return typeof body["name"] === "string" ? body["name"] : null;
}

/**
 * Writes the run, its tables and the commit that follows, in one transaction. "same": the store has all of this already. RUN_EXISTS when it
 * has another run of that id, or fewer entries of this one and the caller does not ask for a copy.
 */
export function importRun(
  handle: Handle,
  params: {
    readonly checked: CheckedRun;
    readonly label: string;
    readonly first: CommitBody | null;
    readonly copy: boolean;
    readonly memory: ValueMemory;
  },
): Job<"imported" | "extended" | "same"> {
  const { run, fold, rows } = params.checked;
  return async (writing) => {
    const found = writing.findHead(run.id);
    if (found !== undefined) {
      if (await hasEntry(writing, found, rows.length, params.checked.head)) return "same";
      if (!params.copy || rows[found.entries - 1]?.hash !== found.hash) throw runExists(run.id);
      checkFree(handle, found);
    }
    const number = found === undefined ? await insertRun(writing, run) : removeRows(writing, found);
    const head = writeEntries(writing, params.checked, number);
    for (const [name, sequence] of fold.tags)
      writing.tx.run("INSERT INTO tags (run, name, sequence) VALUES (?, ?, ?)", [number, name, sequence]);
    for (const effect of fold.effects.values()) writing.tx.run(PUT_EFFECT, effectValues(number, effect));
    const lease = params.copy ? copiedLease(run.id, params.checked) : null;
    if (lease !== null) putLease(writing, head, lease);
    writing.setHead({ ...head, lease });
    if (params.first === null) return found === undefined ? "imported" : "extended";
    const taken = await takeLease(handle, {
      run: run.id,
      label: params.label,
      staleAfterMs: 0,
      over: undefined,
      slot: undefined,
      born: undefined,
    })(writing);
    await commit(handle, claimOf(taken), captureForSql(params.first, params.memory))(writing);
    await releaseLease(handle, taken)(writing);
    return "imported";
  };
}

async function insertRun(writing: Writing, run: Run): Promise<number> {
  const [row] = await writing.tx.all(
    "INSERT INTO runs (id, workflow, birth, epoch, entries, head, sequence, checkpoints) VALUES (?, ?, ?, 0, 0, ?, 0, 0) RETURNING run",
    [run.id, run.workflow, canonicalJson(birthRecord(run)), Buffer.from(birthDigest(run), "hex")],
  );
  return integer(row ?? {}, "run");
}

/** All rows of a shorter copy, in the transaction that writes the longer one: every one of its entries is part of that. */
function removeRows(writing: Writing, { number }: Head): number {
  for (const table of ["entries", "checkpoints", "tombstones", "effects", "tags", "leases"])
    writing.tx.run(`DELETE FROM ${table} WHERE run = ?`, [number]);
  return number;
}

/** LEASE_HELD while an owner may still write the copy that is here. */
function checkFree(handle: Handle, { lease, epoch }: Head): void {
  if (lease === null) return;
  const liveness = ownerLiveness(lease.owner, placeOf(handle), handle.identity);
  const now = handle.now().ms;
  const plan = planLease({ epoch, held: lease, token: "", liveness, now, staleAfterMs: DEFAULT_STALE_AFTER_MS });
  if (plan.kind === "refuse") throw leaseHeld(lease);
}

/** Of an owner that has not released it: no handle has its token, and it is as old as the journal says. */
function copiedLease(run: string, { fold, rows }: CheckedRun): Lease | null {
  const taken = rows.findLast(({ kind }) => kind === "lease.taken");
  if (fold.lease === null || taken === undefined) return null;
  const owner = isJsonObject(fold.lease) ? fold.lease : {};
  const { host, pid, started = null, boot = null, label } = owner;
  const isText = (value: unknown): value is string | null => value === null || typeof value === "string";
  if (
    typeof host !== "string" ||
    typeof pid !== "number" ||
    typeof label !== "string" ||
    !isText(started) ||
    !isText(boot)
  )
    throw corrupt(`The journal of ${run} has a lease without an owner`);
  const { at, epoch } = taken.entry;
  const token = `copied-${randomId()}`;
  return deepFreeze({ run, epoch, owner: { token, host, pid, started, boot, label }, takenAt: at, heartbeatAt: at });
}

/** The lease of the process that wrote the run elsewhere is not taken over: the next one here takes a new epoch. */
function writeEntries(writing: Writing, { run, fold, rows }: CheckedRun, number: number): Head {
  let head: Head = {
    number,
    run,
    epoch: 0,
    lease: null,
    entries: 0,
    hash: birthDigest(run),
    sequence: 0,
    digest: null,
    checkpoints: 0,
    state: null,
  };
  const written = new Set<string>();
  for (const { kind, entry, body, about, checkpoint } of rows) {
    const { at, epoch, body: text } = entry;
    const planes = checkpoint?.planes ?? null;
    const fresh = planes?.chunks.filter((chunk) => !written.has(chunk.digest)) ?? [];
    for (const chunk of fresh) written.add(chunk.digest);
    writing.putChunks(fresh);
    const content =
      checkpoint === null
        ? contentOf(writing, body, text).content
        : planes === null
          ? null
          : packText(planes.root, planes.chunks.length === 0 ? Number.POSITIVE_INFINITY : COMPRESS_ROOT_FROM);
    const size = checkpoint?.size ?? Buffer.byteLength(text);
    head = writing.append(head, { kind, epoch, body: text, content, size, about }, { ms: Date.parse(at), iso: at });
    if (checkpoint === null) continue;
    const { sequence, trigger, stage } = checkpoint;
    const dropped = fold.dropped.get(sequence);
    if (dropped === undefined)
      writing.tx.run(
        "INSERT INTO checkpoints (run, sequence, entry, cause, stage, quarantined) VALUES (?, ?, ?, ?, ?, ?)",
        [number, sequence, head.entries, trigger, stage, fold.quarantined.get(sequence) ?? null],
      );
    else
      writing.tx.run("INSERT INTO tombstones (run, sequence, entry, dropped, why) VALUES (?, ?, ?, ?, ?)", [
        number,
        sequence,
        head.entries,
        Date.parse(dropped.at),
        dropped.why,
      ]);
  }
  return {
    ...head,
    epoch: fold.epoch,
    sequence: fold.sequence,
    digest: fold.digest,
    checkpoints: fold.sequence - fold.dropped.size,
    state: fold.run === NEW_RUN ? null : JSON.stringify(fold.run),
  };
}

async function hasEntry(writing: Writing, { number }: Head, entry: number, hash: Digest): Promise<boolean> {
  const [row] = await writing.tx.all("SELECT hash FROM entries WHERE run = ? AND entry = ?", [number, entry]);
  return row !== undefined && digest(row, "hash") === hash;
}

// What callers may write: runs, commits, tags, drops, quarantine, signals and facts. Each is one job of the write path (write.ts).

import type { CheckpointSummary } from "../checkpoint.ts";
import { EFFECT_KINDS } from "../effects.ts";
import { type CheckpointHead, birthDigest, birthRecord, checkpointBodyText } from "../journal.ts";
import { type JsonObject, deepFreeze, sha256 } from "../json.ts";
import type { Run } from "../run.ts";
import type { Signal, SignalState } from "../signal.ts";
import {
  type CapturedCheckpoint,
  type CapturedCommit,
  type LeaseClaim,
  captureCommit,
  dropConflict,
  foldEffects,
  foldRunEntries,
  sameBirth,
  sequenceConflict,
  tagExists,
} from "../store-commit.ts";
import {
  type CommitBody,
  type Committed,
  type Drop,
  type Tombstone,
  checkpointDropped,
  checkpointNotFound,
  runExists,
} from "../store.ts";
import { allIn } from "./driver.ts";
import { findTombstones } from "./read.ts";
import {
  CHECKPOINT_ROWS,
  EFFECT_COLUMNS,
  checkpointId,
  checkpointRow,
  effectOf,
  effectValues,
  parseState,
  summaryOf,
} from "./records.ts";
import { FACT, checksum, integer, isoTime, putMeta, text } from "./schema.ts";
import { type Chunk, type EncodedValue, type ValueMemory, encodeValue, packText } from "../chunks.ts";
import { canonicalJson } from "../values.ts";
import {
  type EntryFacts,
  type Handle,
  type Head,
  type Job,
  LONG_BODY,
  type Moment,
  type Writing,
  factsOf,
  headUnder,
  ownRow,
} from "./write.ts";

/** In two steps, because a lease can be refused after the run was looked for and before it is made. */
export function createRun(
  handle: Handle,
  born: Omit<Run, "createdAt">,
): {
  /** RUN_EXISTS; undefined: it is not there yet. */
  plan(writing: Writing): Head | undefined;
  make(writing: Writing): Promise<Head>;
} {
  return {
    plan(writing) {
      const found = writing.findHead(born.id);
      if (found !== undefined && !sameBirth(found.run, born)) throw runExists(born.id);
      return found;
    },
    async make(writing) {
      const moment = handle.now();
      const run: Run = deepFreeze({ ...born, createdAt: moment.iso });
      const birth = birthRecord(run);
      const json = canonicalJson(birth);
      const hash = birthDigest(run);
      const [row] = await writing.tx.all(
        "INSERT INTO runs (id, workflow, birth, epoch, entries, head, sequence, checkpoints) VALUES (?, ?, ?, 0, 0, ?, 0, 0) RETURNING run",
        [run.id, run.workflow, json, Buffer.from(hash, "hex")],
      );
      const head: Head = {
        number: integer(row ?? {}, "run"),
        run,
        epoch: 0,
        lease: null,
        entries: 0,
        hash,
        sequence: 0,
        digest: null,
        checkpoints: 0,
        state: null,
      };
      return writing.append(
        head,
        { ...ownRow("run.created", birth, json), ...contentOf(writing, birth, json) },
        moment,
      );
    },
  };
}

/** A long body is kept in chunks; a short one stands in its row. */
export function contentOf(writing: Writing, body: JsonObject, json: string): { readonly content: Uint8Array | null } {
  if (json.length <= LONG_BODY) return { content: null };
  const { root, chunks } = encodeValue(body);
  writing.putChunks(chunks);
  return { content: packText(root, COMPRESS_ROOT_FROM) };
}

type SqlCommit = CapturedCommit<EntryDetail, EncodedValue>;

interface EntryDetail {
  readonly about: EntryFacts;
  /** Of a long body. */
  readonly long: EncodedValue | null;
}

/** `memory`: of the run's states so far. */
export function captureForSql(commit: CommitBody, memory: ValueMemory): SqlCommit {
  return captureCommit(commit, {
    entry: (body, json) => ({ about: factsOf(body), long: json.length > LONG_BODY ? encodeValue(body) : null }),
    planes: (live) => encodeValue(live, memory),
  });
}

/**
 * The root of a value in chunks is written again with every save. A state without chunks is at most 4 KB long: compressing it takes a fifth of
 * the time of a save and saves less than a page.
 */
export const COMPRESS_ROOT_FROM = 512;
export const PUT_EFFECT = `INSERT INTO effects (${EFFECT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, key) DO UPDATE SET kind = excluded.kind, target = excluded.target, payload = excluded.payload, state = excluded.state, at = excluded.at, outcome = excluded.outcome`;

export function commit(handle: Handle, claim: LeaseClaim, captured: SqlCommit): Job<Committed> {
  return async (writing) => {
    const head = headUnder(handle, writing, claim);
    const { entries, checkpoint } = captured;
    const run = head.run.id;
    const moment = handle.now();
    if (checkpoint !== null && checkpoint.sequence !== null && checkpoint.sequence !== head.sequence + 1)
      throw sequenceConflict({ run, expected: checkpoint.sequence, next: head.sequence + 1 });
    const ledger = await ledgerFor(writing, head, entries);
    const folded = { run, at: moment.iso, entries, after: head.entries };
    const effects = foldEffects({ ...folded, current: (key) => ledger.get(key) });
    const fold = foldRunEntries({ ...folded, current: () => parseState(head.state, run) });
    // Nothing is refused from here on.
    let next: Head = fold === null ? head : { ...head, state: JSON.stringify(fold) };
    for (const { kind, text: body, own } of entries) {
      const { about, long } = own;
      if (long !== null) writing.putChunks(missing(writing, long.chunks));
      const content = long === null ? null : packText(long.root, COMPRESS_ROOT_FROM);
      const row = { kind, epoch: head.epoch, body, content, size: Buffer.byteLength(body), about };
      next = writing.append(next, row, moment);
    }
    for (const effect of effects) writing.tx.run(PUT_EFFECT, effectValues(head.number, effect));
    const saved = checkpoint === null ? null : save(writing, next, checkpoint, moment);
    const last = saved?.head ?? next;
    return deepFreeze({ entry: last.entries, head: last.hash, checkpoint: saved?.summary ?? null });
  };
}

async function ledgerFor(writing: Writing, head: Head, entries: SqlCommit["entries"]) {
  const keys = entries.filter(({ kind }) => EFFECT_KINDS.has(kind)).map(({ body }) => String(body()["key"]));
  const sql = `SELECT ${EFFECT_COLUMNS} FROM effects WHERE run = ? AND key IN (??)`;
  const rows = keys.length === 0 ? [] : await allIn(writing.tx, sql, [...new Set(keys)], [head.number]);
  return new Map(rows.map((row) => [text(row, "key"), effectOf(row, head.run.id)]));
}

function missing(writing: Writing, chunks: readonly Chunk[]): readonly Chunk[] {
  const sweeps = writing.sweeps();
  return chunks.filter(({ stored }) => stored !== sweeps);
}

function save(
  writing: Writing,
  head: Head,
  checkpoint: CapturedCheckpoint<EncodedValue>,
  moment: Moment,
): { readonly head: Head; readonly summary: CheckpointSummary } {
  const { planes, trigger, facts } = checkpoint;
  const run = head.run.id;
  const chunks = missing(writing, planes.chunks);
  writing.putChunks(chunks);
  const own = head.digest === null ? null : { id: checkpointId(run, head.sequence), digest: head.digest };
  const parent = own ?? checkpoint.parent;
  const record: CheckpointHead = {
    sequence: head.sequence + 1,
    trigger,
    name: checkpoint.name,
    ...facts,
    logical: planes.bytes,
    added: chunks.reduce((sum, chunk) => sum + Buffer.byteLength(chunk.text), Buffer.byteLength(planes.root)),
    root: sha256(planes.root),
  };
  const next = writing.append(
    head,
    {
      kind: "checkpoint",
      epoch: head.epoch,
      body: checkpointBodyText(record, parent),
      content: packText(planes.root, planes.chunks.length === 0 ? Number.POSITIVE_INFINITY : COMPRESS_ROOT_FROM),
      size: planes.bytes,
      about: { step: facts.stage, started: null, summary: checkpoint.name },
    },
    moment,
  );
  writing.tx.run("INSERT INTO checkpoints (run, sequence, entry, cause, stage) VALUES (?, ?, ?, ?, ?)", [
    head.number,
    record.sequence,
    next.entries,
    trigger,
    facts.stage,
  ]);
  const saved = { ...next, sequence: record.sequence, digest: next.hash, checkpoints: head.checkpoints + 1 };
  writing.setHead(saved);
  const entry = { entry: next.entries, at: moment.iso, hash: next.hash };
  return { head: saved, summary: summaryOf(run, { head: record, parent, entry, quarantined: false }, []) };
}

export function addTag(
  handle: Handle,
  params: {
    readonly run: string;
    readonly sequence: number;
    readonly name: string;
    readonly move: boolean;
    readonly from: readonly string[];
    readonly by: string | undefined;
  },
): Job<void> {
  const { run, sequence, name, by } = params;
  return async (writing) => {
    const head = writing.head(run);
    const others: Head[] = [];
    for (const other of params.from) others.push(writing.head(other));
    const current = await taggedAs(writing, head, name);
    if (current !== sequence) {
      await findCheckpoint(writing, head, sequence);
      if (current !== undefined && !params.move) throw tagExists({ run, name, sequence: current });
    }
    const losing: Head[] = [];
    for (const other of others) if ((await taggedAs(writing, other, name)) !== undefined) losing.push(other);
    for (const other of losing) untag(handle, writing, other, { name, by });
    if (current === sequence) return;
    writing.tx.run(
      "INSERT INTO tags (run, name, sequence) VALUES (?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET sequence = excluded.sequence",
      [head.number, name, sequence],
    );
    const body = { name, sequence, ...(by === undefined ? {} : { by }) };
    writing.append(head, ownRow("tag.added", body, canonicalJson(body)), handle.now());
  };
}

export function removeTag(
  handle: Handle,
  params: { readonly run: string; readonly name: string; readonly by: string | undefined },
): Job<void> {
  return async (writing) => {
    const head = writing.head(params.run);
    if ((await taggedAs(writing, head, params.name)) !== undefined) untag(handle, writing, head, params);
  };
}

function untag(
  handle: Handle,
  writing: Writing,
  head: Head,
  { name, by }: { readonly name: string; readonly by: string | undefined },
): void {
  writing.tx.run("DELETE FROM tags WHERE run = ? AND name = ?", [head.number, name]);
  const body = { name, ...(by === undefined ? {} : { by }) };
  writing.append(head, ownRow("tag.removed", body, canonicalJson(body)), handle.now());
}

async function taggedAs(writing: Writing, head: Head, name: string): Promise<number | undefined> {
  const [row] = await writing.tx.all("SELECT sequence FROM tags WHERE run = ? AND name = ?", [head.number, name]);
  return row === undefined ? undefined : integer(row, "sequence");
}

/** CHECKPOINT_DROPPED or CHECKPOINT_NOT_FOUND when it is not there. */
async function findCheckpoint(writing: Writing, head: Head, sequence: number): Promise<void> {
  const key = [head.number, sequence];
  const [row] = await writing.tx.all("SELECT entry FROM checkpoints WHERE run = ? AND sequence = ?", key);
  if (row !== undefined) return;
  const id = checkpointId(head.run.id, sequence);
  const [stone] = await writing.tx.all("SELECT dropped, why FROM tombstones WHERE run = ? AND sequence = ?", key);
  throw stone === undefined
    ? checkpointNotFound(id)
    : checkpointDropped({ id, droppedAt: isoTime(stone, "dropped"), why: text(stone, "why") });
}

export function drop(
  handle: Handle,
  params: { readonly run: string; readonly drops: readonly Drop[] },
): Job<readonly Tombstone[]> {
  return async (writing) => {
    const { tx } = writing;
    const head = writing.head(params.run);
    const fresh = new Map<number, { readonly why: string; readonly entry: number }>();
    for (const { sequence, why } of params.drops) {
      const id = checkpointId(params.run, sequence);
      const [row] = await tx.all(`${CHECKPOINT_ROWS} WHERE c.run = ? AND c.sequence = ?`, [head.number, sequence]);
      if (row === undefined) {
        const [stone] = await findTombstones(tx, head, [sequence]);
        if (stone === undefined) throw checkpointNotFound(id);
        continue;
      }
      if (sequence === head.sequence) throw dropConflict({ id, why: "it is the newest of its run" });
      const names = await tx.all("SELECT name FROM tags WHERE run = ? AND sequence = ? ORDER BY name", [
        head.number,
        sequence,
      ]);
      if (names.length > 0) {
        const tags = names.map((tag) => text(tag, "name")).join(", ");
        throw dropConflict({ id, why: `it carries the tag ${tags}` });
      }
      if (!fresh.has(sequence)) fresh.set(sequence, { why, entry: entryOf(row, params.run) });
    }
    const moment = handle.now();
    for (const [sequence, { why, entry }] of fresh) {
      tx.run("DELETE FROM checkpoints WHERE run = ? AND sequence = ?", [head.number, sequence]);
      tx.run("INSERT INTO tombstones (run, sequence, entry, dropped, why) VALUES (?, ?, ?, ?, ?)", [
        head.number,
        sequence,
        entry,
        moment.ms,
        why,
      ]);
      tx.run("UPDATE entries SET content = NULL WHERE run = ? AND entry = ?", [head.number, entry]);
    }
    if (fresh.size > 0) {
      const body = { drops: [...fresh].map(([sequence, { why }]) => ({ sequence, why })) };
      const json = canonicalJson(body);
      const row = { ...ownRow("checkpoint.dropped", body, json), ...contentOf(writing, body, json) };
      const next = writing.append(head, row, moment);
      writing.setHead({ ...next, checkpoints: head.checkpoints - fresh.size });
    }
    return Object.freeze(await findTombstones(tx, head, [...new Set(params.drops.map(({ sequence }) => sequence))]));
  };
}

/** A damaged checkpoint may be dropped too, so its record is not checked here. */
function entryOf(row: Parameters<typeof checkpointRow>[0], run: string): number {
  if (row["entry"] === null) return checkpointRow(row, run).entry.entry;
  return integer(row, "entry");
}

export function quarantine(
  handle: Handle,
  params: { readonly run: string; readonly sequences: readonly number[]; readonly reason: string },
): Job<void> {
  return async (writing) => {
    const { tx } = writing;
    const head = writing.head(params.run);
    const fresh = new Set<number>();
    for (const sequence of params.sequences) {
      await findCheckpoint(writing, head, sequence);
      const [row] = await tx.all(
        "SELECT sequence FROM checkpoints WHERE run = ? AND sequence = ? AND quarantined IS NULL",
        [head.number, sequence],
      );
      if (row !== undefined) fresh.add(sequence);
    }
    if (fresh.size === 0) return;
    const body = { sequences: [...fresh], reason: params.reason };
    const json = canonicalJson(body);
    const row = { ...ownRow("checkpoint.quarantined", body, json), ...contentOf(writing, body, json) };
    const next = writing.append(head, row, handle.now());
    for (const sequence of fresh)
      tx.run("UPDATE checkpoints SET quarantined = ? WHERE run = ? AND sequence = ?", [
        next.entries,
        head.number,
        sequence,
      ]);
  };
}

export function putSignal({ run, id, kind, ...body }: Signal): Job<void> {
  return async (writing) => {
    const { number } = writing.head(run);
    const json = JSON.stringify(body);
    if (kind !== "checkpoint") writing.tx.run("DELETE FROM signals WHERE run = ? AND kind = ?", [number, kind]);
    writing.tx.run(
      "INSERT INTO signals (run, id, kind, state, body, checksum) VALUES (?, ?, ?, 'pending', ?, ?) ON CONFLICT (run, id) DO UPDATE SET kind = excluded.kind, state = excluded.state, body = excluded.body, checksum = excluded.checksum",
      [number, id, kind, json, checksum(run, id, kind, json)],
    );
  };
}

export function moveSignal(params: {
  readonly run: string;
  readonly id: string;
  readonly from: SignalState;
  readonly to: SignalState | null;
}): Job<boolean> {
  const { run, id, from, to } = params;
  return async (writing) => {
    const key = [writing.head(run).number, id, from];
    const found = "WHERE run = ? AND id = ? AND state = ? RETURNING id";
    const moved =
      to === null
        ? await writing.tx.all(`DELETE FROM signals ${found}`, key)
        : await writing.tx.all(`UPDATE signals SET state = ? ${found}`, [to, ...key]);
    return moved.length > 0;
  };
}

export function setFact(key: string, value: string): Job<void> {
  return async ({ tx }) => putMeta(tx, FACT + key, value);
}

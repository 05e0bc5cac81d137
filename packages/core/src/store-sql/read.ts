// What callers may read, each from one snapshot. Reads fail closed: every digest from the checkpoint's own down to the last chunk is
// recomputed.

import { HoldfastError } from "@holdfast/platform/error";
import type { Checkpoint, CheckpointSummary, Planes } from "../checkpoint.ts";
import type { Effect } from "../effects.ts";
import type { JournalEntry } from "../journal.ts";
import { type Json, deepFreeze, sha256 } from "../json.ts";
import type { Run, RunSummary } from "../run.ts";
import { unfinishedTarget } from "../status.ts";
import { planeFacts } from "../store-commit.ts";
import {
  type CheckpointQuery,
  type CutRun,
  type RunQuery,
  type StoreStats,
  type Tombstone,
  checkpointDropped,
  checkpointNotFound,
  runNotFound,
} from "../store.ts";
import { type Driver, type ReadTransaction, type Row, allIn } from "./driver.ts";
import type { HeadRecord, MarkContent } from "./high-water.ts";
import {
  CHECKPOINT_ROWS,
  type CheckpointRow,
  EFFECT_COLUMNS,
  ENTRY_COLUMNS,
  WHOLE_ROWS,
  checkpointId,
  checkpointRow,
  corrupt,
  effectOf,
  entryRow,
  journalEntry,
  loadChunks,
  parseBirth,
  parseCheckpointBody,
  parseState,
  summaryOf,
} from "./records.ts";
import { SCHEMA, digest, digestOrNull, integer, isoTime, text, textOrNull } from "./schema.ts";
import { decodeValue, unpackText } from "../chunks.ts";

/** A run as far as the tables of other things refer to it. */
export interface RunRef {
  readonly number: number;
  readonly run: Run;
}

export async function findRun(tx: ReadTransaction, id: string): Promise<RunRef> {
  const [row] = await tx.all("SELECT run, birth FROM runs WHERE id = ?", [id]);
  if (row === undefined) throw runNotFound(id);
  return { number: integer(row, "run"), run: parseBirth(text(row, "birth")) };
}

/** Of each run its row, and the entry of its newest checkpoint that is not quarantined. */
const RUN_ROWS =
  "SELECT r.run, r.birth, r.entries, r.checkpoints, r.state, e.body, e.at FROM runs r LEFT JOIN checkpoints c ON c.run = r.run AND c.sequence = (SELECT max(n.sequence) FROM checkpoints n WHERE n.run = r.run AND n.quarantined IS NULL) LEFT JOIN entries e ON e.run = c.run AND e.entry = c.entry";
const PAGE = 256;

export async function getRun(tx: ReadTransaction, id: string): Promise<RunSummary | undefined> {
  const [row] = await tx.all(`${RUN_ROWS} WHERE r.id = ?`, [id]);
  return row === undefined ? undefined : runSummary(row);
}

/** Newest first. `hidden`: numbers of runs that are left out. */
export async function listRuns(
  tx: ReadTransaction,
  query: RunQuery,
  hidden: ReadonlySet<number>,
): Promise<readonly RunSummary[]> {
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  const ofWorkflow = query.workflow === undefined ? "" : "AND r.workflow = ? ";
  const found: RunSummary[] = [];
  for (let before = Number.MAX_SAFE_INTEGER; found.length < limit;) {
    const rows = await tx.all(`${RUN_ROWS} WHERE r.run < ? ${ofWorkflow}ORDER BY r.run DESC LIMIT ?`, [
      before,
      ...(query.workflow === undefined ? [] : [query.workflow]),
      Math.min(PAGE, limit - found.length + hidden.size),
    ]);
    for (const row of rows) {
      before = integer(row, "run");
      if (!hidden.has(before) && found.length < limit) found.push(runSummary(row));
    }
    if (rows.length === 0) break;
  }
  return Object.freeze(found);
}

function runSummary(row: Row): RunSummary {
  const run = parseBirth(text(row, "birth"));
  const body = textOrNull(row, "body");
  const head = body === null ? null : parseCheckpointBody(body, run.id).head;
  return summarizeRun({
    run,
    state: textOrNull(row, "state"),
    checkpoints: integer(row, "checkpoints"),
    latest: head === null ? null : { ...head, createdAt: isoTime(row, "at") },
    entries: integer(row, "entries"),
  });
}

export function summarizeRun(params: {
  readonly run: Run;
  /** JSON of the run's fold. */
  readonly state: string | null;
  readonly checkpoints: number;
  readonly latest: RunSummary["latest"];
  readonly entries: number;
}): RunSummary {
  const { run, checkpoints, latest, entries } = params;
  const fold = parseState(params.state, run.id);
  return deepFreeze({
    ...run,
    state: fold.state,
    unfinishedRestore: unfinishedTarget(fold),
    checkpoints,
    latest: latest === null ? null : latestOf(latest),
    entries,
  });
}

/** Without what a caller's checkpoint has besides. */
function latestOf({ sequence, createdAt, stage, iteration }: NonNullable<RunSummary["latest"]>): RunSummary["latest"] {
  return { sequence, createdAt, stage, iteration };
}

/** CHECKPOINT_DROPPED, CHECKPOINT_NOT_FOUND, or STORE_CORRUPT with the newest whole checkpoint in its data. */
export async function getCheckpoint(tx: ReadTransaction, run: RunRef, sequence: number): Promise<Checkpoint> {
  const [row] = await tx.all(`${WHOLE_ROWS} WHERE c.run = ? AND c.sequence = ?`, [run.number, sequence]);
  if (row !== undefined) return readWhole(tx, run, row);
  const id = checkpointId(run.run.id, sequence);
  const [stone] = await tx.all("SELECT dropped, why FROM tombstones WHERE run = ? AND sequence = ?", [
    run.number,
    sequence,
  ]);
  throw stone === undefined
    ? checkpointNotFound(id)
    : checkpointDropped({ id, droppedAt: isoTime(stone, "dropped"), why: text(stone, "why") });
}

/** Skips checkpoints that a user has quarantined; never one that is damaged and not quarantined. */
export async function latestCheckpoint(tx: ReadTransaction, run: RunRef): Promise<Checkpoint | undefined> {
  const [row] = await tx.all(
    `${WHOLE_ROWS} WHERE c.run = ? AND c.quarantined IS NULL ORDER BY c.sequence DESC LIMIT 1`,
    [run.number],
  );
  return row === undefined ? undefined : readWhole(tx, run, row);
}

async function readWhole(tx: ReadTransaction, run: RunRef, row: Row): Promise<Checkpoint> {
  const sequence = integer(row, "sequence");
  try {
    const checked = checkpointRow(row, run.run.id);
    const [planes, tags] = await Promise.all([readPlanes(tx, checked), tagsOf(tx, run, [sequence])]);
    return Object.freeze({ ...summaryOf(run.run.id, checked, tags.get(sequence) ?? []), planes });
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
    throw damagedCheckpoint(run, sequence, await newestIntact(tx, run, sequence), error);
  }
}

async function readPlanes(tx: ReadTransaction, { head, entry }: CheckpointRow): Promise<Planes> {
  if (entry.content === null) throw corrupt("its planes are gone");
  return decodePlanes(tx, unpackText(entry.content), head);
}

async function decodePlanes(tx: ReadTransaction, root: string, head: CheckpointRow["head"]): Promise<Planes> {
  if (sha256(root) !== head.root) throw corrupt("its planes do not give their digest");
  const planes = await decodeValue(root, (digests) => loadChunks(tx, digests));
  if (!isPlanes(planes)) throw corrupt("its planes are not an object");
  const facts = planeFacts(planes);
  const same =
    facts.stage === head.stage &&
    facts.iteration === head.iteration &&
    facts.score === head.score &&
    facts.tree === head.tree;
  if (!same) throw corrupt("its record differs from its planes");
  return planes;
}

export function isPlanes(value: Json): value is Planes & Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "position" in value;
}

const MOST_TRIES = 100;

/** The newest other checkpoint that can be read; looked for only once damage was met. */
async function newestIntact(tx: ReadTransaction, run: RunRef, damaged: number): Promise<number | null> {
  const rows = await tx.all(
    `${WHOLE_ROWS} WHERE c.run = ? AND c.quarantined IS NULL AND c.sequence <> ? ORDER BY c.sequence DESC LIMIT ?`,
    [run.number, damaged, MOST_TRIES],
  );
  for (const row of rows) {
    try {
      const checked = checkpointRow(row, run.run.id);
      await readPlanes(tx, checked);
      return checked.head.sequence;
    } catch {
      // This one is damaged as well.
    }
  }
  return null;
}

function damagedCheckpoint(run: RunRef, sequence: number, intact: number | null, cause: HoldfastError): HoldfastError {
  const id = checkpointId(run.run.id, sequence);
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The checkpoint ${id} is damaged: ${cause.message}`,
    hint:
      intact === null
        ? "No other checkpoint of the run could be read. Run `holdfast verify`, or restore the store from a backup."
        : `The newest checkpoint that is whole is ${checkpointId(run.run.id, intact)}. Run \`holdfast verify\` to see what else is damaged, and quarantine it.`,
    data: { checkpoint: id, run: run.run.id, sequence, newestIntact: intact },
    cause,
  });
}

export async function listCheckpoints(
  tx: ReadTransaction,
  run: RunRef,
  query: CheckpointQuery,
): Promise<readonly CheckpointSummary[]> {
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  const wanted: CheckpointRow[] = [];
  const cause = query.trigger === undefined ? "" : "AND c.cause = ? ";
  const stage = query.stage === undefined ? "" : "AND c.stage = ? ";
  for (
    let before = Math.min(query.before ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    wanted.length < limit;
  ) {
    const rows = await tx.all(
      `${CHECKPOINT_ROWS} WHERE c.run = ? AND c.sequence < ? ${cause}${stage}ORDER BY c.sequence DESC LIMIT ?`,
      [
        run.number,
        before,
        ...(query.trigger === undefined ? [] : [query.trigger]),
        ...(query.stage === undefined ? [] : [query.stage]),
        Math.min(PAGE, limit - wanted.length),
      ],
    );
    for (const row of rows) wanted.push(checkpointRow(row, run.run.id));
    before = wanted.at(-1)?.head.sequence ?? 0;
    if (rows.length < PAGE) break;
  }
  const tags = await tagsOf(
    tx,
    run,
    wanted.map(({ head }) => head.sequence),
  );
  return Object.freeze(wanted.map((one) => summaryOf(run.run.id, one, tags.get(one.head.sequence) ?? [])));
}

async function tagsOf(
  tx: ReadTransaction,
  run: RunRef,
  sequences: readonly number[],
): Promise<ReadonlyMap<number, readonly string[]>> {
  const found = new Map<number, string[]>();
  const [least, most] = [sequences.at(-1) ?? 0, sequences[0] ?? 0];
  const rows = await tx.all(
    "SELECT name, sequence FROM tags WHERE run = ? AND sequence >= ? AND sequence <= ? ORDER BY name",
    [run.number, least, most],
  );
  for (const row of rows) {
    const sequence = integer(row, "sequence");
    found.set(sequence, [...(found.get(sequence) ?? []), text(row, "name")]);
  }
  return found;
}

/** At most `limit` entries from `after` (exclusive) on. */
export async function journalPage(
  tx: ReadTransaction,
  run: { readonly number: number; readonly id: string },
  after: number,
  limit: number,
): Promise<readonly JournalEntry[]> {
  const rows = await tx.all(`SELECT ${ENTRY_COLUMNS} FROM entries WHERE run = ? AND entry > ? ORDER BY entry LIMIT ?`, [
    run.number,
    after,
    limit,
  ]);
  const page: JournalEntry[] = [];
  for (const row of rows) {
    const entry = entryRow(row);
    const due = after + page.length + 1;
    if (entry.entry !== due) throw corrupt(`Journal entry ${due} of ${run.id} is gone`, { run: run.id, entry: due });
    page.push(await journalEntry(tx, run.id, entry));
  }
  return page;
}

export async function listEffects(tx: ReadTransaction, run: RunRef): Promise<readonly Effect[]> {
  const rows = await tx.all(`SELECT ${EFFECT_COLUMNS} FROM effects WHERE run = ? ORDER BY key`, [run.number]);
  return Object.freeze(rows.map((row) => effectOf(row, run.run.id)));
}

/** By sequence. `sequences` absent: all of the run. */
export async function findTombstones(
  tx: ReadTransaction,
  run: RunRef,
  sequences?: readonly number[],
): Promise<readonly Tombstone[]> {
  const sql =
    "SELECT t.sequence, t.entry, t.dropped, t.why, e.at, e.hash, e.body FROM tombstones t LEFT JOIN entries e ON e.run = t.run AND e.entry = t.entry WHERE t.run = ?";
  const rows =
    sequences === undefined
      ? await tx.all(`${sql} ORDER BY t.sequence`, [run.number])
      : await allIn(tx, `${sql} AND t.sequence IN (??)`, sequences, [run.number]);
  return rows
    .map((row) => {
      const sequence = integer(row, "sequence");
      const { head } = parseCheckpointBody(textOrNull(row, "body") ?? "", checkpointId(run.run.id, sequence));
      return Object.freeze({
        run: run.run.id,
        sequence,
        entry: integer(row, "entry"),
        digest: digest(row, "hash"),
        trigger: head.trigger,
        createdAt: isoTime(row, "at"),
        droppedAt: isoTime(row, "dropped"),
        why: text(row, "why"),
      });
    })
    .toSorted((a, b) => a.sequence - b.sequence);
}

export async function readStats(tx: ReadTransaction, driver: Driver): Promise<StoreStats> {
  const [row = {}] = await tx.all(
    "SELECT count(*) AS runs, coalesce(sum(entries), 0) AS entries, coalesce(sum(checkpoints), 0) AS checkpoints FROM runs",
  );
  return Object.freeze({
    runs: integer(row, "runs"),
    entries: integer(row, "entries"),
    checkpoints: integer(row, "checkpoints"),
    bytes: await driver.bytes(),
    schema: SCHEMA,
    engine: driver.engine,
    durability: driver.durability,
  });
}

/** What the database says against a record of the high-water mark; null when they agree. */
export async function contradiction(tx: ReadTransaction, { run, entry, hash }: HeadRecord): Promise<CutRun | null> {
  const [row] = await tx.all(
    "SELECT r.id, r.entries, e.hash FROM runs r LEFT JOIN entries e ON e.run = r.run AND e.entry = ? WHERE r.run = ?",
    [entry, run],
  );
  if (row === undefined)
    return { number: run, run: null, why: `run number ${run} with ${entry} journal entries is gone` };
  const found = digestOrNull(row, "hash");
  if (found === hash) return null;
  const id = text(row, "id");
  const why =
    found === null
      ? `the journal of ${id} ends with entry ${integer(row, "entries")}, but entry ${entry} was written`
      : `entry ${entry} of ${id} is not the one that was written`;
  return { number: run, run: id, why };
}

/** Of so many newest runs the end is compared at every opening; verify compares all. */
const COMPARED_ON_OPENING = 1024;

/**
 * Runs of which the database holds less than was written. The mark must be read before the snapshot of `tx` begins: other processes commit
 * meanwhile, and an older snapshot would be behind it. `damaged`: whether a run that cannot be read is skipped or ends the search.
 */
export async function findCuts(
  tx: ReadTransaction,
  mark: MarkContent,
  params: { readonly storeId: string; readonly damaged: "throw" | "skip" },
): Promise<readonly CutRun[]> {
  if (mark.kind !== "read" || mark.storeId !== params.storeId) return [];
  // All questions are sent before the first answer.
  const found = await Promise.all(
    mark.heads.slice(-COMPARED_ON_OPENING).map(async (head) => {
      try {
        return await contradiction(tx, head);
      } catch (error) {
        if (params.damaged === "throw") throw error;
        return null;
      }
    }),
  );
  return found.filter((cut) => cut !== null);
}

export function cutError(location: string, mark: string, { why, number: run }: CutRun): HoldfastError {
  return new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${location} is older or shorter than it was: ${why}`,
    hint: `Restore the whole store from one backup. To accept the loss and continue with what is there, remove ${mark}.`,
    data: { location, run },
  });
}

/*
 * The tables of a dispatch, and each statement on them. Write transactions take turns, so what one reads holds until it commits.
 *
 * entries  one row a run. `wake`: when it is due; 0 is at once, NULL is at a signal. An active entry has `worker` and `turn`; a turn is the name of
 *          one execution and is never used again, so the result of a worker that lost the entry does not match.
 * workers  one row a worker that has joined. `address`: where the process of the worker receives its turns. `heartbeat`: the database's time.
 */
import type { DispatchLimits, Entry, Job, NewWorker, Next, WorkerEntry } from "@holdfast/core/dispatch";
import type { Driver, ReadTransaction, Row, SqlValue, WriteTransaction } from "@holdfast/core/store-sql/driver";
import { type Dialect, integer, text, textOrNull } from "@holdfast/core/store-sql/schema";
import { HoldfastError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import {
  type DispatchFacts,
  type DueEntry,
  type Room,
  deadWorkers,
  hasLabels,
  planDispatch,
  roomFor,
} from "./plan-dispatch.ts";

const FORMAT = 1;

function tableStatements({ KEY, INT, TEXT }: Dialect): readonly string[] {
  return [
    `CREATE TABLE IF NOT EXISTS format (version ${INT} NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS entries (place ${KEY}, run ${TEXT} NOT NULL UNIQUE, queue ${TEXT} NOT NULL, repository ${TEXT} NOT NULL,
      priority ${INT} NOT NULL, needs ${TEXT} NOT NULL, wake ${INT}, signalled ${INT} NOT NULL, worker ${TEXT}, turn ${TEXT} UNIQUE)`,
    `CREATE TABLE IF NOT EXISTS workers (id ${TEXT} PRIMARY KEY, address ${TEXT} NOT NULL, host ${TEXT} NOT NULL, labels ${TEXT} NOT NULL,
      slots ${INT} NOT NULL, version ${TEXT} NOT NULL, draining ${INT} NOT NULL, heartbeat ${INT} NOT NULL)`,
    "CREATE INDEX IF NOT EXISTS entries_by_worker ON entries (worker, wake)",
  ];
}

/** All write transactions of a dispatch exclude each other. */
export const EXCLUSIVE = { sweep: "none", slots: true } as const;

/** Looks before it creates: a worker's role may have no right to create. `before`: statements for a database without tables. */
export async function ensureTables(driver: Driver, dialect: Dialect, before: readonly string[] = []): Promise<void> {
  const version = async (tx: ReadTransaction): Promise<number | undefined> => {
    const [row] = await tx.all("SELECT version FROM format");
    return row === undefined ? undefined : integer(row, "version");
  };
  let found = await driver.read(version).catch(() => undefined);
  found ??= await driver.write(
    EXCLUSIVE,
    async (tx) => {
      for (const statement of [...before, ...tableStatements(dialect)]) tx.run(statement);
      const there = await version(tx);
      if (there === undefined) tx.run("INSERT INTO format (version) VALUES (?)", [FORMAT]);
      return there ?? FORMAT;
    },
    async () => "repeat",
  );
  if (found === FORMAT) return;
  throw new HoldfastError({
    code: "STORE_TOO_NEW",
    message: `The dispatch in ${driver.location} has format ${found}; this Holdfast supports ${FORMAT}`,
    hint: "Use the Holdfast version that wrote it, or a newer one.",
    data: { location: driver.location, format: found, known: FORMAT },
  });
}

/** The database's time. A file has no clock but that of its machine. */
export async function timeOf(driver: Driver, tx: ReadTransaction): Promise<number> {
  if (driver.clock === null) return Date.now();
  const [row] = await tx.all(driver.clock);
  return integer(row ?? {}, "now");
}

export async function insertEntry(tx: WriteTransaction, job: Job, at: number | undefined): Promise<boolean> {
  const rows = await tx.all(
    "INSERT INTO entries (run, queue, repository, priority, needs, wake, signalled) VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (run) DO NOTHING RETURNING run",
    [job.run, job.queue, job.repository, job.priority, formatLabels(job.needs), at ?? 0],
  );
  return rows.length > 0;
}

export async function deleteEntry(tx: WriteTransaction, run: string): Promise<boolean> {
  return (await tx.all("DELETE FROM entries WHERE run = ? RETURNING run", [run])).length > 0;
}

export async function signalEntry(tx: WriteTransaction, run: string): Promise<boolean> {
  const rows = await tx.all(
    "UPDATE entries SET wake = CASE WHEN worker IS NULL THEN 0 ELSE wake END, signalled = CASE WHEN worker IS NULL THEN 0 ELSE 1 END WHERE run = ? RETURNING run",
    [run],
  );
  return rows.length > 0;
}

export async function delayEntry(tx: WriteTransaction, run: string, at: number): Promise<boolean> {
  const rows = await tx.all("UPDATE entries SET wake = ? WHERE run = ? AND worker IS NULL RETURNING run", [at, run]);
  return rows.length > 0;
}

/** What becomes of the entry after a turn; "failed": its work threw. A turn that another worker has taken over, or that was cancelled, is gone. */
export async function finishTurn(
  tx: WriteTransaction,
  now: number,
  turn: string,
  next: Next | { readonly kind: "failed" },
): Promise<void> {
  const [row] = await tx.all("SELECT run, needs, signalled FROM entries WHERE turn = ?", [turn]);
  if (row === undefined) return;
  const isSignalled = integer(row, "signalled") !== 0;
  if (next.kind === "ended" && !isSignalled) {
    tx.run("DELETE FROM entries WHERE turn = ?", [turn]);
    return;
  }
  const wake = isSignalled ? 0 : wakeAfter(next, now);
  const needs = next.kind === "needs" ? formatLabels(next.labels) : text(row, "needs");
  tx.run("UPDATE entries SET worker = NULL, turn = NULL, signalled = 0, wake = ?, needs = ? WHERE turn = ?", [
    wake,
    needs,
    turn,
  ]);
}

/** Work that throws is tried again after this time. The worker itself decides about known failures, from the journal. */
const RETRY_MS = 60_000;

function wakeAfter(next: Next | { readonly kind: "failed" }, now: number): number | null {
  switch (next.kind) {
    case "wake":
      return next.at;
    case "signal":
      return null;
    case "failed":
      return now + RETRY_MS;
    case "ended":
    case "needs":
      return 0;
  }
}

const RELEASE = "UPDATE entries SET worker = NULL, turn = NULL, signalled = 0, wake = 0";

/** Gives the turns of a worker back that it has not begun. */
export function releaseTurns(tx: WriteTransaction, turns: readonly string[]): void {
  for (const turn of turns) tx.run(`${RELEASE} WHERE turn = ?`, [turn]);
}

export function removeWorker(tx: WriteTransaction, id: string): void {
  tx.run(`${RELEASE} WHERE worker = ?`, [id]);
  tx.run("DELETE FROM workers WHERE id = ?", [id]);
}

export interface OwnWorker extends NewWorker {
  readonly id: string;
  readonly address: string;
  readonly host: string;
  readonly draining: boolean;
}

/** Returns whether the heartbeat before was in time. */
export async function beat(tx: WriteTransaction, now: number, worker: OwnWorker, deadMs: number): Promise<boolean> {
  const [row] = await tx.all("SELECT heartbeat FROM workers WHERE id = ?", [worker.id]);
  tx.run(
    "INSERT INTO workers (id, address, host, labels, slots, version, draining, heartbeat) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET draining = excluded.draining, heartbeat = excluded.heartbeat",
    [
      worker.id,
      worker.address,
      worker.host,
      formatLabels(worker.labels),
      worker.slots,
      worker.version,
      worker.draining ? 1 : 0,
      now,
    ],
  );
  return row !== undefined && Math.abs(now - integer(row, "heartbeat")) <= deadMs;
}

export interface Plan {
  readonly dead: readonly string[];
  readonly assign: readonly { readonly run: string; readonly worker: string }[];
}

/** Decides from what one transaction reads. */
export async function readPlan(
  tx: ReadTransaction,
  now: number,
  params: { readonly limits: DispatchLimits; readonly deadMs: number; readonly punctual: boolean },
): Promise<Plan> {
  const workers = (await tx.all("SELECT id, labels, slots, draining, heartbeat FROM workers")).map((row) => ({
    id: text(row, "id"),
    labels: parseLabels(row, "labels"),
    slots: integer(row, "slots"),
    draining: integer(row, "draining") !== 0,
    heartbeatAgeMs: now - integer(row, "heartbeat"),
  }));
  const active = (
    await tx.all("SELECT run, queue, repository, needs, worker FROM entries WHERE worker IS NOT NULL")
  ).map((row) => ({
    run: text(row, "run"),
    queue: text(row, "queue"),
    repository: text(row, "repository"),
    needs: parseLabels(row, "needs"),
    worker: text(row, "worker"),
  }));
  const facts: DispatchFacts = { workers, active, ...params };
  return { dead: deadWorkers(facts), assign: planDispatch(facts, await readDue(tx, now, roomFor(facts))) };
}

/** More than one plan assigns. What is left is planned next time. */
const MOST_DUE = 200;

/** In the order of execution. Without what no worker can execute now: thousands of such entries must not hide the others. */
async function readDue(tx: ReadTransaction, now: number, room: Room): Promise<readonly DueEntry[]> {
  if (room.offers.length === 0) return [];
  const wanted = await tx.all("SELECT DISTINCT needs FROM entries WHERE worker IS NULL AND wake <= ?", [now]);
  const needs = wanted
    .filter((row) => {
      const needed = parseLabels(row, "needs");
      return (
        !needed.some((label) => room.fullLabels.has(label)) && room.offers.some((labels) => hasLabels(labels, needed))
      );
    })
    .map((row) => text(row, "needs"));
  if (needs.length === 0) return [];
  const [queues, repositories, labels] = [listOf(room.fullQueues), listOf(room.fullRepositories), listOf(needs)];
  const rows = await tx.all(
    `SELECT run, queue, repository, needs FROM entries WHERE worker IS NULL AND wake <= ? AND queue NOT IN ${queues.sql} AND repository NOT IN ${repositories.sql} AND needs IN ${labels.sql} ORDER BY priority DESC, place LIMIT ${MOST_DUE}`,
    [now, ...queues.values, ...repositories.values, ...labels.values],
  );
  return rows.map((row) => ({
    run: text(row, "run"),
    queue: text(row, "queue"),
    repository: text(row, "repository"),
    needs: parseLabels(row, "needs"),
  }));
}

/** A list for IN, filled up to a power of two, so that there are few different statements. No name is empty. */
function listOf(values: readonly string[]): { readonly sql: string; readonly values: readonly SqlValue[] } {
  const size = 2 ** Math.ceil(Math.log2(Math.max(1, values.length)));
  const filled = Array.from({ length: size }, (_, i) => values[i] ?? values[0] ?? "");
  return { sql: `(${filled.map(() => "?").join(", ")})`, values: filled };
}

/** Returns the new turns. */
export function applyPlan(tx: WriteTransaction, plan: Plan): ReadonlySet<string> {
  for (const id of plan.dead) removeWorker(tx, id);
  const turns = new Set<string>();
  for (const { run, worker } of plan.assign) {
    const turn = randomId();
    tx.run("UPDATE entries SET worker = ?, turn = ?, signalled = 0 WHERE run = ?", [worker, turn, run]);
    turns.add(turn);
  }
  return turns;
}

export interface Turn {
  readonly turn: string;
  readonly worker: string;
  readonly address: string;
}

/** All turns of living workers. */
export async function readTurns(tx: ReadTransaction): Promise<readonly Turn[]> {
  const rows = await tx.all("SELECT e.turn, e.worker, w.address FROM entries e JOIN workers w ON w.id = e.worker");
  return rows.map((row) => ({
    turn: text(row, "turn"),
    worker: text(row, "worker"),
    address: text(row, "address"),
  }));
}

export interface Current {
  readonly turns: ReadonlySet<string>;
  readonly addresses: ReadonlySet<string>;
}

export async function readCurrent(tx: ReadTransaction): Promise<Current> {
  const workers = await tx.all("SELECT address FROM workers");
  return {
    turns: new Set((await readTurns(tx)).map(({ turn }) => turn)),
    addresses: new Set(workers.map((row) => text(row, "address"))),
  };
}

export async function readJob(
  tx: ReadTransaction,
  turn: string,
): Promise<{ readonly job: Job; readonly worker: string } | null> {
  const [row] = await tx.all("SELECT run, queue, repository, priority, needs, worker FROM entries WHERE turn = ?", [
    turn,
  ]);
  return row === undefined ? null : { job: parseJob(row), worker: text(row, "worker") };
}

export async function readEntries(tx: ReadTransaction): Promise<readonly Entry[]> {
  const rows = await tx.all(
    "SELECT run, queue, repository, priority, needs, wake, worker FROM entries ORDER BY priority DESC, place",
  );
  return rows.map((row) => {
    const worker = textOrNull(row, "worker");
    return {
      ...parseJob(row),
      state: worker === null ? "waiting" : "active",
      wakeAt: worker !== null || row["wake"] === null ? null : integer(row, "wake"),
      worker,
    };
  });
}

export async function readWorkers(tx: ReadTransaction, now: number): Promise<readonly WorkerEntry[]> {
  const rows = await tx.all(
    "SELECT id, host, labels, slots, version, draining, heartbeat, (SELECT count(*) FROM entries e WHERE e.worker = w.id) AS busy FROM workers w ORDER BY id",
  );
  return rows.map((row) => ({
    id: text(row, "id"),
    host: text(row, "host"),
    labels: parseLabels(row, "labels"),
    slots: integer(row, "slots"),
    busy: integer(row, "busy"),
    version: text(row, "version"),
    draining: integer(row, "draining") !== 0,
    heartbeatAgeMs: now - integer(row, "heartbeat"),
  }));
}

function parseJob(row: Row): Job {
  return {
    run: text(row, "run"),
    queue: text(row, "queue"),
    repository: text(row, "repository"),
    priority: integer(row, "priority"),
    needs: parseLabels(row, "needs"),
  };
}

/** The same labels are the same text. A label has no line break. */
function formatLabels(labels: readonly string[]): string {
  return [...new Set(labels)].toSorted().join("\n");
}

function parseLabels(row: Row, column: string): readonly string[] {
  return text(row, column)
    .split("\n")
    .filter((label) => label !== "");
}

// The one write path. Calls queue up; all that wait when a transaction begins share it and its sync. Each call makes all its checks before
// it writes its first row, so one that is refused leaves the others alone. After an error of the database the group is rolled back and each
// call is tried by itself.

import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import type { ProcessIdentity } from "@holdfast/platform/identity";
import { type EntryKind, entryHash } from "../journal.ts";
import type { Digest, Json } from "../json.ts";
import type { Lease } from "../lease.ts";
import type { Run } from "../run.ts";
import { type LeaseClaim, leaseLost } from "../store-commit.ts";
import { runNotFound } from "../store.ts";
import { type Driver, type LostAnswer, type ReadTransaction, type WriteTransaction, allIn } from "./driver.ts";
import { parseBirth, readLeasesOf } from "./records.ts";
import { digest, digestOrNull, getMeta, integer, putMeta, text, textOrNull } from "./schema.ts";
import { type Chunk, packText } from "../chunks.ts";

/** The end of a run, as the next entry continues it. */
export interface Head {
  /** The run's number; 0 for a run that is not in the database yet. */
  readonly number: number;
  readonly run: Run;
  readonly epoch: number;
  readonly lease: Lease | null;
  readonly entries: number;
  readonly hash: Digest;
  /** Newest checkpoint; 0 and null while there is none. */
  readonly sequence: number;
  readonly digest: Digest | null;
  /** How many checkpoints there are, without the dropped ones. */
  readonly checkpoints: number;
  /** JSON of the run's fold; null while no entry says anything about the run as a whole. */
  readonly state: string | null;
}

export interface Moment {
  readonly ms: number;
  readonly iso: string;
}

/** What a handle is, for everything that writes through it. */
export interface Handle {
  readonly driver: Driver;
  readonly storeId: string;
  /** Where lock files show which owners are alive; null: the store has no directory. */
  readonly directory: string | null;
  /** Random; makes this handle an owner of its own. */
  readonly token: string;
  readonly identity: ProcessIdentity;
  readonly now: () => Moment;
}

/** Many commits fall into one millisecond; its text is made once. */
export function momentsOf(clock: Clock): () => Moment {
  let last = momentAt(0);
  return () => {
    const ms = Math.trunc(clock.now());
    if (ms !== last.ms) last = momentAt(ms);
    return last;
  };
}

function momentAt(ms: number): Moment {
  return { ms, iso: new Date(ms).toISOString() };
}

export interface NewRow {
  readonly kind: EntryKind;
  readonly epoch: number;
  /** Canonical JSON. */
  readonly body: string;
  /** Of a checkpoint its planes, of an entry with a long body that body: the packed root of a value in chunks. */
  readonly content: Uint8Array | null;
  readonly size: number;
  readonly about: EntryFacts;
}

/** What a list of entries shows without reading their bodies. All of it follows from the body. */
export interface EntryFacts {
  readonly step: string | null;
  readonly started: number | null;
  readonly summary: string | null;
}

/** A body longer than this is kept in chunks. */
export const LONG_BODY = 4096;
const LONGEST_SUMMARY = 120;

export function factsOf(body: Readonly<Record<string, unknown>>): EntryFacts {
  const first = (...keys: readonly string[]): string | null => {
    for (const key of keys) {
      const value = body[key];
      if (typeof value === "string" && value !== "") return value;
    }
    return null;
  };
  const started = Date.parse(first("startedAt") ?? "");
  const line = first("reason", "event", "outcome", "name", "question", "text");
  return {
    step: first("step", "stage", "key"),
    started: Number.isNaN(started) ? null : started,
    summary: line === null ? null : line.replaceAll(/\s+/g, " ").slice(0, LONGEST_SUMMARY).toWellFormed(),
  };
}

/** Inside a write transaction. */
export interface Writing {
  readonly tx: WriteTransaction;
  /** For leases: the time of the database, where several machines use it. */
  readonly now: () => Moment;
  /** How many sweeps there have been: a chunk that was known before the last one may be gone. */
  readonly sweeps: () => number;
  /** Counts one more sweep. From its commit on every save writes its chunks again, or marks those that are there. */
  beginSweep(): number;
  /** Of a run that the job named; undefined when it is not there. */
  findHead(run: string): Head | undefined;
  /** RUN_NOT_FOUND. */
  head(run: string): Head;
  /** Changes of a head other than by `append`. Written when the group is complete. */
  setHead(head: Head): void;
  /** A head whose row in `runs` did not change. */
  remember(head: Head): void;
  append(head: Head, row: NewRow, moment: Moment): Head;
  /** Writes the chunks that are not known to be there, with those of the whole group. */
  putChunks(chunks: readonly Chunk[]): void;
}

export type Job<T> = (writing: Writing) => Promise<T>;

/** What a job needs to itself. Every run that it writes or decides by is named, so that all are locked in one order before the first job. */
export interface Needs {
  readonly runs: readonly string[];
  readonly slots?: boolean;
  /** Compares times of different machines. */
  readonly clock?: boolean;
  readonly sweep?: "begin";
  /** Its change leaves no entry, and must not be made twice. */
  readonly once?: boolean;
}

export interface Group {
  /** Jobs commit in the order of these calls. A job throws before its first write, or not at all. */
  submit<T>(needs: Needs, job: Job<T>): Promise<T>;
  /** Jobs that are submitted later wait for this. */
  hold(reading: Promise<unknown>): void;
  /** Settles when everything submitted so far has. */
  idle(): Promise<void>;
}

interface Pending {
  readonly needs: Needs;
  readonly job: Job<unknown>;
  resolve(result: unknown): void;
  reject(error: HoldfastError): void;
}

type Answer =
  | { readonly kind: "done"; readonly result: unknown }
  | { readonly kind: "refused"; readonly error: HoldfastError };

interface StoredChunk {
  readonly chunk: Chunk;
  readonly sweep: number;
}

const LARGEST_GROUP = 512;
/** In a larger group, the one question that reads all heads costs less than a check of each. */
const MOST_CHECKED = 8;
/** Longest stretch of commits without a turn of the event loop. */
const TURN_EVERY_MS = 10;
/** Chunks below this many characters hardly compress. */
const COMPRESS_FROM = 256;

const INSERT_ENTRY =
  "INSERT INTO entries (run, entry, kind, at, epoch, hash, step, started, summary, size, body, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const UPDATE_RUN =
  "UPDATE runs SET epoch = ?, entries = ?, head = ?, sequence = ?, digest = ?, checkpoints = ?, state = ? WHERE run = ?";
const TOUCH_CHUNK =
  "INSERT INTO chunks (digest, sweep, bytes) VALUES (?, ?, ?) ON CONFLICT (digest) DO UPDATE SET sweep = excluded.sweep";

export function createGroup(params: {
  readonly handle: Handle;
  /** After each commit. */
  readonly committed: () => void;
  /** This handle refuses to write from now on. */
  readonly onDistrust: () => void;
}): Group {
  const { driver, storeId } = params.handle;
  /** As of the last transaction; used again while no other connection commits. */
  const heads = new Map<string, Head>();
  let sweeps = -1;
  /** As of the transaction under way, where the database has a clock. */
  let databaseTime: Moment | null = null;
  let queue: Pending[] = [];
  let working: Promise<void> | undefined;
  let held: Promise<unknown> | undefined;
  let lastSize = 1;
  let lastTurn = 0;
  let broken: HoldfastError | undefined;

  async function work(): Promise<void> {
    while (queue.length > 0) {
      // A lone caller is served at once, but timers and signals must get their share. Several callers that wake together get one turn of the
      // event loop to queue up again.
      if (lastSize > 1 || performance.now() - lastTurn > TURN_EVERY_MS) {
        await new Promise((resolve) => setImmediate(resolve));
        lastTurn = performance.now();
      }
      while (held !== undefined) {
        const waited = held;
        await waited;
        if (held === waited) held = undefined;
      }
      const group = queue.slice(0, LARGEST_GROUP);
      queue = queue.slice(LARGEST_GROUP);
      lastSize = group.length;
      await commit(group);
    }
    working = undefined;
  }

  async function commit(group: readonly Pending[]): Promise<void> {
    if (broken !== undefined) {
      for (const { reject } of group) reject(broken);
      return;
    }
    const changed = new Set<string>();
    const chunks: StoredChunk[] = [];
    const claims = {
      sweep: group.some(({ needs }) => needs.sweep === "begin") ? "begin" : "none",
      slots: group.some(({ needs }) => needs.slots === true),
    } as const;
    let trusts = trustsHeads(group);
    let answers: readonly Answer[];
    try {
      answers = await driver.write(
        claims,
        async (tx, undisturbed) => {
          changed.clear();
          chunks.length = 0;
          if (trusts) checkHeads(tx, group);
          else {
            if (!undisturbed) forgetHeads(group);
            await prepare(tx, undisturbed, group);
          }
          // A repetition reads: one of the heads was not what it should be.
          trusts = false;
          const answered = await runJobs(tx, group, changed, chunks);
          for (const run of changed) updateRun(tx, heads.get(run));
          writeChunks(tx, chunks);
          return answered;
        },
        (tx) => examine(tx, group, changed),
      );
    } catch (error) {
      heads.clear();
      sweeps = -1;
      await fail(group, error);
      return;
    }
    for (const { chunk, sweep } of chunks) chunk.stored = sweep;
    note(changed);
    for (const [i, { resolve, reject }] of group.entries()) {
      const answer = answers[i];
      if (answer?.kind === "done") resolve(answer.result);
      else if (answer !== undefined) reject(answer.error);
    }
    if (changed.size > 0) params.committed();
  }

  /** Whether what this handle wrote last is checked, not read: it holds the leases of the few runs, and nothing asks for the time or for slots. */
  function trustsHeads(group: readonly Pending[]): boolean {
    if (driver.checkHead === null || sweeps < 0 || group.length > MOST_CHECKED) return false;
    return group.every(
      ({ needs }) =>
        needs.runs.length > 0 &&
        needs.slots !== true &&
        needs.clock !== true &&
        needs.sweep === undefined &&
        needs.runs.every((run) => isOwn(heads.get(run))),
    );
  }

  function isOwn(head: Head | undefined): boolean {
    return head?.lease?.owner.token === params.handle.token;
  }

  /** Another connection may have changed them. What is checked when it is used again stays. */
  function forgetHeads(group: readonly Pending[]): void {
    if (driver.checkHead === null) return heads.clear();
    for (const { needs } of group) for (const run of needs.runs) heads.delete(run);
    for (const [run, head] of heads) if (!isOwn(head)) heads.delete(run);
  }

  /** In the order in which `loadHeads` locks. An answer that is wrong because a head is old is never given: nothing is committed. */
  function checkHeads(tx: WriteTransaction, group: readonly Pending[]): void {
    databaseTime = null;
    if (driver.checkHead === null) return;
    for (const run of [...new Set(group.flatMap(({ needs }) => needs.runs))].toSorted()) {
      const head = heads.get(run);
      if (head !== undefined) tx.run(driver.checkHead, [head.number, Buffer.from(head.hash, "hex"), String(sweeps)]);
    }
  }

  /** One round trip: all questions are sent before the first answer. The leases are read by a statement of their own: see `loadHeads`. */
  async function prepare(tx: WriteTransaction, undisturbed: boolean, group: readonly Pending[]): Promise<void> {
    const missing = new Set(group.flatMap(({ needs }) => needs.runs).filter((run) => !heads.has(run)));
    const isKnown = undisturbed && sweeps >= 0;
    databaseTime = null;
    if (isKnown && missing.size === 0) return;
    const [counted, loaded, time] = await Promise.all([
      isKnown ? sweeps : getMeta(tx, "store/sweeps"),
      loadHeads(tx, [...missing].toSorted(), driver.forUpdate),
      driver.clock !== null && group.some(({ needs }) => needs.clock === true) ? tx.all(driver.clock) : null,
    ]);
    sweeps = Number(counted ?? 0);
    if (time !== null) databaseTime = momentAt(integer(time[0] ?? {}, "now"));
    for (const head of loaded) heads.set(head.run.id, head);
  }

  /** A commit is known by the last entry of any run that it changed: nothing else can have written an entry with that hash. */
  async function examine(
    tx: ReadTransaction,
    group: readonly Pending[],
    changed: ReadonlySet<string>,
  ): Promise<LostAnswer> {
    const [run] = changed;
    const head = run === undefined ? undefined : heads.get(run);
    if (head === undefined) return group.some(({ needs }) => needs.once === true) ? "unknown" : "repeat";
    const [row] = await tx.all(
      "SELECT e.hash FROM entries e JOIN runs r ON r.run = e.run WHERE r.id = ? AND e.entry = ?",
      [head.run.id, head.entries],
    );
    return row !== undefined && digest(row, "hash") === head.hash ? "committed" : "repeat";
  }

  async function runJobs(
    tx: WriteTransaction,
    group: readonly Pending[],
    changed: Set<string>,
    chunks: StoredChunk[],
  ): Promise<readonly Answer[]> {
    let writes = 0;
    const counted: WriteTransaction = {
      all(sql, values) {
        // INSERT and DELETE with RETURNING.
        if (!sql.startsWith("SELECT")) writes += 1;
        return tx.all(sql, values);
      },
      run(sql, values) {
        writes += 1;
        tx.run(sql, values);
      },
    };
    const writing = writingOn(counted, changed, chunks);
    const answers: Answer[] = [];
    for (const { job } of group) {
      const before = writes;
      try {
        answers.push({ kind: "done", result: await job(writing) });
      } catch (error) {
        if (!(error instanceof HoldfastError) || writes !== before) throw error;
        answers.push({ kind: "refused", error });
      }
    }
    return answers;
  }

  function writingOn(tx: WriteTransaction, changed: Set<string>, chunks: StoredChunk[]): Writing {
    function setHead(head: Head): void {
      heads.set(head.run.id, head);
      changed.add(head.run.id);
    }
    return {
      tx,
      now: () => databaseTime ?? params.handle.now(),
      sweeps: () => sweeps,
      beginSweep() {
        sweeps += 1;
        putMeta(tx, "store/sweeps", String(sweeps));
        return sweeps;
      },
      findHead: (run) => heads.get(run),
      head(run) {
        const head = heads.get(run);
        if (head === undefined) throw runNotFound(run);
        return head;
      },
      setHead,
      remember: (head) => void heads.set(head.run.id, head),
      append(head, row, moment) {
        const entry = head.entries + 1;
        const { kind, epoch, body, about } = row;
        const link = { run: head.run.id, entry, kind, at: moment.iso, epoch, body };
        const hash = entryHash(head.hash, link);
        const isLong = body.length > LONG_BODY;
        tx.run(INSERT_ENTRY, [
          head.number,
          entry,
          kind,
          moment.ms,
          epoch,
          Buffer.from(hash, "hex"),
          about.step,
          about.started,
          about.summary,
          row.size,
          isLong ? null : body,
          row.content,
        ]);
        const next = { ...head, entries: entry, hash };
        setHead(next);
        return next;
      },
      putChunks(wanted) {
        for (const chunk of wanted) chunks.push({ chunk, sweep: sweeps });
      },
    };
  }

  function note(changed: ReadonlySet<string>): void {
    const records = [...changed].flatMap((run) => {
      const head = heads.get(run);
      return head === undefined ? [] : [{ run: head.number, entry: head.entries, hash: head.hash }];
    });
    driver.highWater?.note(storeId, records);
  }

  async function fail(group: readonly Pending[], error: unknown): Promise<void> {
    const reason = driver.toError(error);
    if (driver.losesTrust(error)) {
      broken = reason;
      params.onDistrust();
    }
    const together = group.length > 1 && broken === undefined && driver.blamesOne(error);
    for (const pending of group) {
      if (together) await commit([pending]);
      else pending.reject(reason);
    }
  }

  return {
    submit(needs, job) {
      return new Promise((resolve, reject) => {
        // `resolve` takes what `job` gives; the queue holds jobs of all types.
        queue.push({ needs, job, resolve: resolve as (result: unknown) => void, reject });
        working ??= Promise.resolve().then(work);
      });
    },
    hold(reading) {
      held = Promise.allSettled([held, reading]);
    },
    idle: async () => working,
  };
}

/**
 * The only place where a run's row is read for writing. The rows are locked in the order of their ids. The leases are read by the next statement:
 * a row that is joined to a locked one may be from before the wait for the lock.
 */
async function loadHeads(tx: WriteTransaction, runs: readonly string[], forUpdate: string): Promise<readonly Head[]> {
  const [rows, leases] = await Promise.all([
    allIn(
      tx,
      `SELECT run, birth, epoch, entries, head, sequence, digest, checkpoints, state FROM runs WHERE id IN (??) ORDER BY id${forUpdate}`,
      runs,
    ),
    readLeasesOf(tx, runs),
  ]);
  return rows.map((row) => {
    const birth = parseBirth(text(row, "birth"));
    return {
      number: integer(row, "run"),
      run: birth,
      epoch: integer(row, "epoch"),
      lease: leases.get(birth.id) ?? null,
      entries: integer(row, "entries"),
      hash: digest(row, "head"),
      sequence: integer(row, "sequence"),
      digest: digestOrNull(row, "digest"),
      checkpoints: integer(row, "checkpoints"),
      state: textOrNull(row, "state"),
    };
  });
}

/** Last, each once, and in the order of their digests: transactions that write the same chunks meet in the same order. */
function writeChunks(tx: WriteTransaction, chunks: readonly StoredChunk[]): void {
  if (chunks.length === 0) return;
  const wanted = new Map(chunks.map((one) => [one.chunk.digest, one]));
  const rows = [...wanted.values()].map(({ chunk, sweep }) => ({
    digest: Buffer.from(chunk.digest, "base64url"),
    sweep,
    text: chunk.text,
  }));
  for (const { digest: key, sweep, text: content } of rows.toSorted((a, b) => Buffer.compare(a.digest, b.digest)))
    tx.run(TOUCH_CHUNK, [key, sweep, packText(content, COMPRESS_FROM)]);
}

function updateRun(tx: WriteTransaction, head: Head | undefined): void {
  if (head === undefined) return;
  tx.run(UPDATE_RUN, [
    head.epoch,
    head.entries,
    Buffer.from(head.hash, "hex"),
    head.sequence,
    head.digest === null ? null : Buffer.from(head.digest, "hex"),
    head.checkpoints,
    head.state,
    head.number,
  ]);
}

/** The canonical JSON of a body that the store itself makes, with what lists show of it. */
export function ownRow(kind: EntryKind, body: Readonly<Record<string, Json>>, json: string, epoch = 0): NewRow {
  return { kind, epoch, body: json, content: null, size: Buffer.byteLength(json), about: factsOf(body) };
}

/** The run's head, when this handle may write it under that lease; else LEASE_LOST. */
export function headUnder(handle: Handle, writing: Writing, claim: LeaseClaim): Head {
  const head = writing.head(claim.run);
  if (!holds(handle, head, claim)) throw leaseLost({ run: claim.run, epoch: claim.epoch, current: head.lease });
  return head;
}

/** A lease belongs to the handle that took it. */
export function holds(handle: Handle, head: Head, claim: LeaseClaim): boolean {
  return claim.token === handle.token && head.epoch === claim.epoch && head.lease?.owner.token === claim.token;
}

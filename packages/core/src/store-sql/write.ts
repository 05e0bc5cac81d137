import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import type { ProcessIdentity } from "@holdfast/platform/identity";
import { type EntryKind, entryHash } from "../journal.ts";
import type { Digest, Json } from "../json.ts";
import type { Lease } from "../lease.ts";
import type { Run } from "../run.ts";
import type { LeaseClaim } from "../store-commit.ts";
import { leaseLost, runNotFound } from "../store.ts";
import type { Driver, WriteTransaction } from "./driver.ts";
import { parseBirth, readLease } from "./records.ts";
import { digest, digestOrNull, getMeta, integer, putMeta, text, textOrNull } from "./schema.ts";
import { type Chunk, packText } from "../chunks.ts";

/*
 * The one write path. Calls queue up; all that wait when a transaction begins share it and its sync. Each call makes all its checks before it
 * writes its first row, so one that is refused leaves the others alone. After an error of the database the group is rolled back and each call is
 * tried by itself.
 */

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
  let last: Moment = { ms: 0, iso: new Date(0).toISOString() };
  return () => {
    const ms = Math.trunc(clock.now());
    if (ms !== last.ms) last = { ms, iso: new Date(ms).toISOString() };
    return last;
  };
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
  /** How many sweeps there have been: a chunk that was known before the last one may be gone. */
  readonly sweeps: () => number;
  /** Counts one more sweep. From its commit on every save writes its chunks again, or marks those that are there. */
  beginSweep(): number;
  /** undefined when there is no such run. */
  findHead(run: string): Promise<Head | undefined>;
  /** RUN_NOT_FOUND. */
  head(run: string): Promise<Head>;
  /** Changes of a head other than by `append`. Written when the group is complete. */
  setHead(head: Head): void;
  /** A head whose row in `runs` did not change. */
  remember(head: Head): void;
  append(head: Head, row: NewRow, moment: Moment): Head;
  /** Writes the chunks that are not known to be there. */
  putChunks(chunks: readonly Chunk[]): void;
}

export type Job<T> = (writing: Writing) => Promise<T>;

export interface Group {
  /** Jobs commit in the order of these calls. A job throws before its first write, or not at all. */
  submit<T>(job: Job<T>): Promise<T>;
  /** Jobs that are submitted later wait for this. */
  hold(reading: Promise<unknown>): void;
  /** Settles when everything submitted so far has. */
  idle(): Promise<void>;
}

interface Pending {
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
    let answers: readonly Answer[];
    try {
      answers = await driver.write(async (tx, undisturbed) => {
        if (!undisturbed) heads.clear();
        if (!undisturbed || sweeps < 0) sweeps = Number((await getMeta(tx, "store/sweeps")) ?? 0);
        const answered = await runJobs(tx, group, changed, chunks);
        for (const run of changed) updateRun(tx, heads.get(run));
        return answered;
      });
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
    async function findHead(run: string): Promise<Head | undefined> {
      const known = heads.get(run);
      if (known !== undefined) return known;
      const head = await loadHead(tx, run);
      if (head !== undefined) heads.set(run, head);
      return head;
    }
    function setHead(head: Head): void {
      heads.set(head.run.id, head);
      changed.add(head.run.id);
    }
    return {
      tx,
      sweeps: () => sweeps,
      beginSweep() {
        sweeps += 1;
        putMeta(tx, "store/sweeps", String(sweeps));
        return sweeps;
      },
      findHead,
      async head(run) {
        const head = await findHead(run);
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
        for (const chunk of wanted) {
          tx.run(TOUCH_CHUNK, [Buffer.from(chunk.digest, "base64url"), sweeps, packText(chunk.text, COMPRESS_FROM)]);
          chunks.push({ chunk, sweep: sweeps });
        }
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

  /** Nothing of the group was written. One member may be the cause, so each is tried by itself. */
  async function fail(group: readonly Pending[], error: unknown): Promise<void> {
    const reason = driver.toError(error);
    if (driver.losesTrust(error)) {
      broken = reason;
      params.onDistrust();
    }
    const together = group.length > 1 && broken === undefined && reason.code !== "STORE_BUSY";
    for (const pending of group) {
      if (together) await commit([pending]);
      else pending.reject(reason);
    }
  }

  return {
    submit(job) {
      return new Promise((resolve, reject) => {
        // `resolve` takes what `job` gives; the queue holds jobs of all types.
        queue.push({ job, resolve: resolve as (result: unknown) => void, reject });
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
 * The only place where a run's row is read for writing. A database with row locks must lock the row here in one statement and read it in the
 * next: a joined row may be from before the wait.
 */
async function loadHead(tx: WriteTransaction, run: string): Promise<Head | undefined> {
  const [row] = await tx.all(
    "SELECT run, birth, epoch, entries, head, sequence, digest, checkpoints, state FROM runs WHERE id = ?",
    [run],
  );
  if (row === undefined) return undefined;
  const number = integer(row, "run");
  const birth = parseBirth(text(row, "birth"));
  return {
    number,
    run: birth,
    epoch: integer(row, "epoch"),
    lease: await readLease(tx, { number, id: birth.id }),
    entries: integer(row, "entries"),
    hash: digest(row, "head"),
    sequence: integer(row, "sequence"),
    digest: digestOrNull(row, "digest"),
    checkpoints: integer(row, "checkpoints"),
    state: textOrNull(row, "state"),
  };
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
export async function headUnder(handle: Handle, writing: Writing, claim: LeaseClaim): Promise<Head> {
  const head = await writing.head(claim.run);
  if (!holds(handle, head, claim)) throw leaseLost({ run: claim.run, epoch: claim.epoch, current: head.lease });
  return head;
}

/** A lease belongs to the handle that took it. */
export function holds(handle: Handle, head: Head, claim: LeaseClaim): boolean {
  return claim.token === handle.token && head.epoch === claim.epoch && head.lease?.owner.token === claim.token;
}

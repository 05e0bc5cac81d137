// The store contract: where runs, journals and checkpoints live, and the errors that every store throws.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Checkpoint, CheckpointId, CheckpointParent, CheckpointSummary, Planes, Trigger } from "./checkpoint.ts";
import type { Effect } from "./effects.ts";
import type { JournalEntry, NewEntry } from "./journal.ts";
import type { Digest, JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import type { Run, RunSummary, Work } from "./run.ts";
import type { Signal, SignalState, StoredSignal } from "./signal.ts";

/**
 * Where runs, journals and checkpoints live.
 * - Durable: when a promise of a writing method resolves, its change survives kill -9 and power loss. When it rejects, either nothing was
 * changed or, only after a lost answer, the whole change is there; never a part of it.
 * - Concurrent: any number of handles in any number of processes. Readers never block writers and never see a part of a commit. Calls on
 * one handle may overlap; they commit in call order and may share one sync.
 * - Arguments are captured before the call returns its promise: changing an object afterwards changes nothing.
 * - Results are deeply frozen.
 * - Every method rejects with HoldfastError only.
 */
export interface Store {
  /** Random, made with the store; distinguishes it from another store at the same location. */
  readonly id: string;
  readonly location: string;

  /** Throws RUN_EXISTS when the id belongs to a run with another birth record; the same call again returns the run. */
  createRun(run: NewRun): Promise<Run>;
  getRun(id: string): Promise<RunSummary | undefined>;
  /** Newest first. */
  listRuns(query?: RunQuery): Promise<readonly RunSummary[]>;

  /**
   * Acquires a run's lease.
   * - LEASE_HELD (data: the owner) while the owner is alive or its liveness is unknown. On another host that lasts until the heartbeat is
   * older than `staleAfterMs`, by default a minute. A dead owner's lease is acquired with epoch + 1. Acquiring it again with the same
   * handle returns the held lease. A lease is valid only for the handle that acquired it.
   * - With `over` it takes the lease with that epoch from its owner, alive or not. LEASE_HELD if another owner has acquired it since.
   * - With `slot` it also acquires a slot, decided in the same transaction over the leases of all runs. LOOP_LIMIT, and nothing is written,
   * when none is free (data: the holders). A waiting handle tries again by calling again.
   * - With `birth` a missing run is created in the same transaction (RUN_EXISTS as in `createRun`): a refused caller leaves no run behind.
   * With `birth.first` that transaction also contains the first commit of a run that has no checkpoint. The caller that creates a run so gets
   * it as `created`, and need not read it.
   */
  takeLease(params: {
    readonly run: string;
    readonly birth?: LeasedBirth;
    readonly label: string;
    readonly staleAfterMs?: number;
    readonly over?: number;
    readonly slot?: SlotClaim;
  }): Promise<TakenLease>;
  /** Throws LEASE_LOST when the epoch is stale. */
  renewLease(lease: Lease): Promise<Lease>;
  /** Releasing a lease that is no longer held is not an error. */
  releaseLease(lease: Lease): Promise<void>;
  getLease(run: string): Promise<Lease | undefined>;
  /** The held leases of all runs, including those of dead owners, in no order; a consistent snapshot. */
  listLeases(): Promise<readonly Lease[]>;
  /** Milliseconds since 1970 by the clock that leases age by: the database's own, or this machine's if it has none. */
  now(): Promise<number>;

  /**
   * Writes the entries, then the checkpoint, and folds effect entries into the ledger, in one transaction. It checks the epoch inside the
   * transaction: LEASE_LOST, and nothing is written, when another owner acquired the lease. CONFLICT, and nothing is written, for an effect
   * entry that does not fit the ledger. USAGE for kinds that record the store's own methods.
   */
  commit(commit: Commit): Promise<Committed>;

  getCheckpoint(ref: CheckpointRef): Promise<Checkpoint>;
  /** Newest checkpoint of the run; undefined when it has none. */
  latest(run: string): Promise<Checkpoint | undefined>;
  /** Newest first. Its cost depends on `limit`, not on the length of the history. */
  listCheckpoints(query: CheckpointQuery): Promise<readonly CheckpointSummary[]>;

  /** In order, from `after` (exclusive) on. It reads in pages, so memory does not grow with the history. */
  readJournal(query: {
    readonly run: string;
    readonly after?: number;
    readonly limit?: number;
  }): AsyncIterable<JournalEntry>;
  /**
   * Entries of one run, or of all, by any process, until the signal aborts or the store is closed. It starts now, or for each run at
   * `after`. Within a run they come in order; between runs there is no order. "Now" is the time of the call: entries before the first
   * `next()` are not missed. `patient`: entries of other processes may come 0.2 seconds late, or two
   * seconds where the file system does not report writes. That costs less for many stores.
   */
  watch(query: {
    readonly run?: string;
    readonly after?: number;
    readonly patient?: boolean;
    readonly signal: AbortSignal;
  }): AsyncIterable<JournalEntry>;

  listEffects(run: string): Promise<readonly Effect[]>;

  /**
   * Sends a signal to the process that executes the run, now or next. Needs no lease. The signal is pending until it is moved. It replaces a
   * signal with the same id. A run has at most one pause and one abort: a later one replaces the earlier.
   */
  putSignal(signal: Signal): Promise<void>;
  /** Signals of one run, or of all, in no order. It is cheap while no other handle writes, because a lease holder polls it. */
  listSignals(run?: string): Promise<readonly StoredSignal[]>;
  /**
   * Moves a signal from one state to another; null removes it. False, and nothing is changed, when it is not in the state `from`: of a taking
   * and a withdrawal that coincide, exactly one succeeds.
   */
  moveSignal(params: {
    readonly run: string;
    readonly id: string;
    readonly from: SignalState;
    readonly to: SignalState | null;
  }): Promise<boolean>;

  /**
   * A tag names one checkpoint of a run. TAG_EXISTS when it names another and `move` is not set. Needs no lease. `from`: other runs that
   * lose the tag in the same transaction, if they have it.
   */
  tag(params: {
    readonly run: string;
    readonly sequence: number;
    readonly name: string;
    readonly move?: boolean;
    readonly from?: readonly string[];
    /** Who gives the name, for the journal. Absent: the user, directly. */
    readonly by?: string;
  }): Promise<void>;
  /** Removing a tag that does not exist is not an error. */
  untag(params: { readonly run: string; readonly name: string; readonly by?: string }): Promise<void>;

  /**
   * Removes checkpoints and leaves a tombstone for each; returns the tombstones of all named sequences, in order. It drops all or nothing.
   * Dropping a dropped one is not an error. CONFLICT for a tagged one or the newest of its run; CHECKPOINT_NOT_FOUND for one that never
   * existed. `sweep` frees the bytes.
   */
  drop(params: { readonly run: string; readonly drops: readonly Drop[] }): Promise<readonly Tombstone[]>;
  listTombstones(run: string): Promise<readonly Tombstone[]>;

  /**
   * Frees what no checkpoint and no entry needs. Safe while other processes write.
   */
  sweep(params?: { readonly dryRun?: boolean }): Promise<SweepReport>;

  /**
   * Recomputes everything; yields problems as it finds them, then one "summary". Changes nothing. INTERRUPTED on abort. With `scope`
   * "journal" it checks only the entries, their chain and the tables folded from them, not the content of checkpoints. Its cost then
   * depends on the number of entries.
   */
  verify(params?: VerifyParams): AsyncIterable<VerifyEvent>;
  /** Marks checkpoints as damaged, with a journal entry, so that `latest` and resume skip them. They are kept. */
  quarantine(params: {
    readonly run: string;
    readonly sequences: readonly number[];
    readonly reason: string;
  }): Promise<void>;

  /**
   * A whole run, as another store can import it: one snapshot, without signals and without the lease. STORE_CORRUPT when a part of it is
   * damaged.
   */
  exportRun(run: string): Promise<StoredRun>;
  /**
   * Writes a run of another store and the commit `first`, under a lease that it takes and releases, in one transaction. Everything that the
   * record claims is checked first: FORMAT_DAMAGED (data: the entry). "same": this store has these entries. RUN_EXISTS when it has another
   * run of that id. The chain proves that the record is whole, not who wrote it.
   * `copy`: the run stays the same run, with the lease of an owner that has not released it, and `first` is null. A shorter copy that is here is
   * "extended", unless an owner may still write it: LEASE_HELD.
   */
  importRun(params: {
    readonly stored: StoredRun;
    readonly label: string;
    readonly first: CommitBody | null;
    readonly copy?: boolean;
  }): Promise<"imported" | "extended" | "same">;

  /**
   * Differs when a signal may have been written since, a few seconds late at worst. It costs no question to the database. Absent: a read is as
   * cheap.
   */
  changes?(): string;
  /**
   * Only for a store that is open for reading: runs that `listRuns` left out because the database has less of them than was written.
   * Reading one of them throws STORE_CUT; the others remain readable.
   */
  withheld?(): readonly CutRun[];
  /**
   * Frees the disk space that the store reserved when it was opened for writing, and returns the bytes. It is for a caller that gets
   * DISK_FULL and must record that it waits. Absent: this store reserves none.
   */
  makeRoom?(): Promise<number>;
  stats(): Promise<StoreStats>;
  /** Small facts about the store itself (for example when gc last ran). Durable; the last write wins. */
  getMeta(key: string): Promise<string | undefined>;
  setMeta(key: string, value: string): Promise<void>;
  /**
   * Waits for calls in flight, releases its leases and closes the store. A second call is not an error; any other call after it rejects.
   */
  close(): Promise<void>;
}

/** One run with its whole history, outside a store. */
export interface StoredRun {
  /** The birth record, with which the hash chain begins. */
  readonly birth: JsonObject;
  /** Hash of the last entry. */
  readonly head: Digest;
  readonly entries: readonly StoredEntry[];
  /** Texts that the planes refer to by their digest, each once. */
  readonly chunks: readonly string[];
}

export interface StoredEntry {
  readonly kind: string;
  readonly at: string;
  readonly epoch: number;
  /** Canonical JSON, as the hash covers it. */
  readonly body: string;
  /** Of a checkpoint the root of its planes; null for other entries and for a dropped checkpoint. */
  readonly planes: string | null;
}

export interface CutRun {
  readonly number: number;
  /** Null: nothing of the run is left, not even its id. */
  readonly run: string | null;
  readonly why: string;
}

export interface NewRun extends RunBirth {
  readonly id: string;
}

export interface RunBirth {
  readonly workflow: string;
  readonly work: Work;
  readonly forkedFrom?: CheckpointParent;
  readonly labels?: JsonObject;
}

/** A run that is created together with its lease. */
export interface LeasedBirth extends RunBirth {
  /** Ignored when the run has a checkpoint. */
  readonly first?: CommitBody;
}

export interface TakenLease extends Lease {
  /** The call has created the run with its first checkpoint. Absent: the run was there before, or there is no such checkpoint. */
  readonly created?: CreatedRun;
}

/** A run as it was created: what `getRun` and `latest` would answer. No process can have written to it before. */
export interface CreatedRun {
  readonly run: RunSummary;
  readonly first: Checkpoint;
}

export interface SlotClaim {
  /** How many runs with a slot may work at the same time; null: this one works whatever their number. */
  readonly limit: number | null;
  /** If no slot is free, acquire the lease as a waiting one. The queue is ordered by priority (a meta value of the store), then by age. */
  readonly wait: boolean;
}

export interface RunQuery {
  readonly limit?: number;
  readonly workflow?: string;
}

export interface CheckpointRef {
  readonly run: string;
  readonly sequence: number;
}

export interface CheckpointQuery {
  readonly run: string;
  /** Sequences below this one. */
  readonly before?: number;
  readonly limit?: number;
  readonly trigger?: Trigger;
  readonly stage?: string;
}

export interface Commit extends CommitBody {
  readonly lease: Lease;
  /** Releases the lease in the same transaction. Nothing is released when the commit is refused. */
  readonly release?: boolean;
}

export interface CommitBody {
  readonly entries?: readonly NewEntry[];
  readonly checkpoint?: NewCheckpoint;
}

export interface NewCheckpoint {
  /**
   * The sequence that the caller expects, because its git ref contains it: CONFLICT when it is not the next one. Absent: the next one,
   * whatever it is.
   */
  readonly sequence?: number;
  readonly trigger: Trigger;
  readonly name?: string;
  readonly planes: Planes;
  /** Parent of a fork's first checkpoint. Otherwise the run's newest checkpoint is the parent and this is ignored. */
  readonly parent?: CheckpointParent;
}

export interface Committed {
  /** Number of the run's last journal entry. */
  readonly entry: number;
  readonly head: Digest;
  readonly checkpoint: CheckpointSummary | null;
}

export interface Drop {
  readonly sequence: number;
  readonly why: string;
}

export interface Tombstone {
  readonly run: string;
  readonly sequence: number;
  readonly entry: number;
  readonly digest: Digest;
  readonly trigger: Trigger;
  readonly createdAt: string;
  readonly droppedAt: string;
  readonly why: string;
}

export interface SweepReport {
  readonly chunks: number;
  readonly freedBytes: number;
}

export interface VerifyParams {
  readonly run?: string;
  readonly scope?: "all" | "journal";
  readonly signal?: AbortSignal;
}

export type VerifyEvent =
  | { readonly kind: "problem"; readonly problem: Problem }
  | { readonly kind: "progress"; readonly run: string; readonly checked: number }
  /** Another machine that shares the store has, or had, the files of these checkpoints. That is no damage. */
  | { readonly kind: "absent"; readonly run: string; readonly checkpoints: number }
  | {
      readonly kind: "summary";
      readonly ok: boolean;
      readonly runs: number;
      readonly entries: number;
      readonly checkpoints: number;
      readonly chunks: number;
      readonly problems: number;
    };

export interface Problem {
  /**
   * PIN_MISSING: the objects exist, but no ref keeps git from collecting them. PIN_MOVED: the checkpoint's ref names another object.
   * HIGH_WATER_CUT: the high-water mark of the run is gone. STORE_ROLLED_BACK: the repository has refs of newer checkpoints than the store
   * knows.
   */
  readonly code:
    | "STORE_CUT"
    | "STORE_CORRUPT"
    | "STORE_MISSING"
    | "TREE_MISSING"
    | "PIN_MISSING"
    | "PIN_MOVED"
    | "HIGH_WATER_CUT"
    | "STORE_ROLLED_BACK";
  readonly run: string | null;
  readonly entry: number | null;
  readonly sequence: number | null;
  readonly what: string;
  /** Last journal entry of the run that can still be trusted; null when it does not concern a run. */
  readonly trustedTo: number | null;
  /** Newest intact checkpoint of the run; null when there is none. */
  readonly newestIntact: number | null;
}

export interface StoreStats {
  readonly runs: number;
  readonly entries: number;
  readonly checkpoints: number;
  readonly bytes: number;
  readonly schema: number;
  readonly engine: string;
  readonly durability: string;
}

/** The errors that every store throws, in the same words. */

export function runNotFound(run: string): HoldfastError {
  return new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run ${run} in this store`,
    hint: "List the runs to see which ones there are.",
    data: { run },
  });
}

export function runExists(run: string): HoldfastError {
  return new HoldfastError({
    code: "RUN_EXISTS",
    message: `The run ${run} exists already and was created for something else`,
    hint: "Choose another id, or continue the run that is there.",
    data: { run },
  });
}

export function checkpointNotFound(id: CheckpointId): HoldfastError {
  return new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `There is no checkpoint ${id}`,
    hint: "List the run's checkpoints to see which ones there are.",
    data: { checkpoint: id },
  });
}

export function checkpointDropped(params: {
  readonly id: CheckpointId;
  readonly droppedAt: string;
  readonly why: string;
}): HoldfastError {
  return new HoldfastError({
    code: "CHECKPOINT_DROPPED",
    message: `The checkpoint ${params.id} was dropped on ${params.droppedAt}: ${params.why}`,
    hint: "Its place in the journal is kept; choose a checkpoint that is still there.",
    data: { checkpoint: params.id, droppedAt: params.droppedAt, why: params.why },
  });
}

export function leaseHeld(lease: Lease): HoldfastError {
  const { owner } = lease;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `The run ${lease.run} is being written by ${owner.label} (process ${owner.pid} on ${owner.host})`,
    hint: "Wait until it ends, or stop it; a dead owner's lease is taken over without asking.",
    retry: "later",
    data: { run: lease.run, owner, epoch: lease.epoch, heartbeatAt: lease.heartbeatAt },
  });
}

export function storeClosed(location: string): HoldfastError {
  return usageError(`The store ${location} is closed`, "Open it again.", { location, closed: true });
}

/** Whether an error says that the store was closed before the call. */
export function isStoreClosed(error: unknown): boolean {
  return error instanceof HoldfastError && error.data["closed"] === true;
}

/** The run was created, and its process was killed before its first checkpoint. */
export function runNotStarted({ id, forkedFrom }: Pick<RunSummary, "id" | "forkedFrom">): HoldfastError {
  const hint =
    forkedFrom === null
      ? `Start it again with \`holdfast run\` and the same words, or end it: \`holdfast stop ${id} --now\`.`
      : `Complete the fork: \`holdfast fork ${forkedFrom.id} --as ${id}\`. Or remove it: \`holdfast rm ${id}\`.`;
  return new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: `Run ${id} has not begun: it has no checkpoint`,
    hint,
    data: { run: id },
  });
}

/** Throws RUN_NOT_FOUND when there is none. */
export async function knownRun(store: Pick<Store, "getRun">, run: string): Promise<RunSummary> {
  const summary = await store.getRun(run);
  if (summary === undefined) throw runNotFound(run);
  return summary;
}

/** Repeats a write that finds the disk full once the store has freed its reserve. For the little that must be recorded even then. */
export async function writeWithReserve<T>(store: Store, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const isFull = error instanceof HoldfastError && error.code === "DISK_FULL";
    if (!isFull || ((await store.makeRoom?.()) ?? 0) === 0) throw error;
    return await write();
  }
}

const PAGE = 500;

/** Every checkpoint of a run, newest first. It reads in pages, so memory does not grow with the history. */
export async function* allCheckpoints(store: Store, run: string): AsyncGenerator<CheckpointSummary> {
  let before: number | undefined;
  for (;;) {
    const page = await store.listCheckpoints({ run, limit: PAGE, ...(before === undefined ? {} : { before }) });
    yield* page;
    before = page.at(-1)?.sequence;
    if (page.length < PAGE || before === undefined) return;
  }
}

/**
 * The newest checkpoint that the store can read, and the sequences of newer ones that it cannot. For commands that only show a run: one
 * damaged page must not hide the rest.
 */
export async function newestUsable(
  store: Store,
  run: string,
): Promise<{ readonly checkpoint: Checkpoint | undefined; readonly damaged: readonly number[] }> {
  const damaged: number[] = [];
  try {
    return { checkpoint: await store.latest(run), damaged };
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
  }
  for await (const { sequence, quarantined } of allCheckpoints(store, run)) {
    try {
      if (!quarantined) return { checkpoint: await store.getCheckpoint({ run, sequence }), damaged };
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
      damaged.push(sequence);
    }
  }
  return { checkpoint: undefined, damaged };
}

/** Problems of a run's entries, their chain and what is folded from them; not of the content of its checkpoints. */
export async function journalDamage(store: Store, run: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const event of store.verify({ run, scope: "journal" }))
    if (event.kind === "problem") found.push(event.problem.what);
  return found;
}

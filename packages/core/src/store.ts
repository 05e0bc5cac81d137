import { HoldfastError } from "@holdfast/platform/error";
import type { Checkpoint, CheckpointId, CheckpointParent, CheckpointSummary, Planes, Trigger } from "./checkpoint.ts";
import type { Effect } from "./effects.ts";
import type { JournalEntry, NewEntry } from "./journal.ts";
import type { Digest, JsonObject } from "./json.ts";
import type { Lease, SlotLease } from "./lease.ts";
import type { Run, RunSummary, Work } from "./run.ts";

/**
 * Where runs, journals and checkpoints live.
 *
 * Durable: when a promise of a writing method resolves, its change survives kill -9 and power loss. When it rejects,
 * either nothing was changed, or (only after a lost answer) the change is there whole; never a part of it.
 * Concurrent: any number of handles in any number of processes. Readers never block writers and never see a part
 * of a commit. Calls on one handle may overlap; they commit in call order and may share one sync.
 * What goes in is captured before the call returns its promise: changing the object afterwards changes nothing.
 * What comes out is deeply frozen.
 * Every method rejects with HoldfastError only.
 */
export interface Store {
  /** Random, made with the store; tells a store from another at the same place. */
  readonly id: string;
  readonly location: string;

  /** RUN_EXISTS when the id is taken by a run with another birth record; the same call again returns the run. */
  createRun(run: NewRun): Promise<Run>;
  getRun(id: string): Promise<RunSummary | undefined>;
  /** Newest first. */
  listRuns(query?: RunQuery): Promise<readonly RunSummary[]>;

  /**
   * LEASE_HELD (data: the owner) while the owner lives or its life cannot be told (another host: until the heartbeat
   * is older than `staleAfterMs`, by default a minute). A dead owner's lease is taken with epoch + 1. Taking it again
   * with the same handle returns the lease held. A lease serves only the handle that took it.
   * With `slot` also a place among those at work, decided in the same transaction over the leases of all runs: LOOP_LIMIT, and nothing is
   * written, when there is none (data: who has them). Taken by the same handle again, one that waits tries again.
   * With `birth` a run that is not there yet is made in the same transaction (RUN_EXISTS as by `createRun`): whoever is refused leaves none behind.
   */
  takeLease(params: {
    readonly run: string;
    readonly birth?: RunBirth;
    readonly label: string;
    readonly staleAfterMs?: number;
    readonly slot?: SlotClaim;
  }): Promise<Lease>;
  /** LEASE_LOST when the epoch is stale. */
  renewLease(lease: Lease): Promise<Lease>;
  /** Releasing a lease that is not held any more is no error. */
  releaseLease(lease: Lease): Promise<void>;
  getLease(run: string): Promise<Lease | undefined>;
  /** Of all runs, those that are held, also by the dead, in no order; all of one moment. */
  listLeases(): Promise<readonly Lease[]>;

  /**
   * One transaction: the entries, then the checkpoint, and the fold of effect entries into the ledger. The epoch is
   * checked inside it: LEASE_LOST, and nothing is written, when another owner took over. CONFLICT, and nothing is written,
   * for an effect entry that does not fit the ledger. Kinds that record the store's own methods are refused (USAGE).
   */
  commit(commit: Commit): Promise<Committed>;

  getCheckpoint(ref: CheckpointRef): Promise<Checkpoint>;
  /** Newest checkpoint of the run; undefined when it has none. */
  latest(run: string): Promise<Checkpoint | undefined>;
  /** Newest first. Its cost follows `limit`, not the history's length. */
  listCheckpoints(query: CheckpointQuery): Promise<readonly CheckpointSummary[]>;

  /** In order, from `after` (exclusive) on. Reads in pages: memory does not follow the history's length. */
  readJournal(query: {
    readonly run: string;
    readonly after?: number;
    readonly limit?: number;
  }): AsyncIterable<JournalEntry>;
  /**
   * Entries of one run, or of all, from now on (or of each run from `after` on), by any process, until the signal aborts or the store is
   * closed. Within a run they come in order; between runs there is none. "Now" is the call: nothing before the first look is missed.
   */
  watch(query: {
    readonly run?: string;
    readonly after?: number;
    readonly signal: AbortSignal;
  }): AsyncIterable<JournalEntry>;

  listEffects(run: string): Promise<readonly Effect[]>;

  /**
   * A tag names one checkpoint of a run. TAG_EXISTS when it names another and `move` is not set. Needs no lease. `from`: other runs that lose the
   * tag in the same transaction, those of them that have it.
   */
  tag(params: {
    readonly run: string;
    readonly sequence: number;
    readonly name: string;
    readonly move?: boolean;
    readonly from?: readonly string[];
  }): Promise<void>;
  /** Removing a tag that is not there is no error. */
  untag(params: { readonly run: string; readonly name: string }): Promise<void>;

  /**
   * Removes checkpoints and leaves a tombstone for each; returns those of all that were named, by sequence. All or
   * nothing. Dropping one that is gone is no error; CONFLICT for one that carries a tag, or the newest of its run;
   * CHECKPOINT_NOT_FOUND for one that never was. Bytes come back with `sweep`.
   */
  drop(params: { readonly run: string; readonly drops: readonly Drop[] }): Promise<readonly Tombstone[]>;
  listTombstones(run: string): Promise<readonly Tombstone[]>;

  /** Frees what no checkpoint refers to, re-packs and compresses what is old; removes stale temporary files. Safe beside writers. */
  sweep(params?: { readonly compressBefore?: string; readonly dryRun?: boolean }): Promise<SweepReport>;

  /**
   * Recomputes everything; yields what is wrong as it goes, then one "summary". Changes nothing. INTERRUPTED on abort. With `scope` "journal" only the
   * entries, their chain and the tables that are folded from them, not what checkpoints hold: its cost follows the number of entries.
   */
  verify(params?: VerifyParams): AsyncIterable<VerifyEvent>;
  /** Marks checkpoints as damaged so that latest and resume pass over them, aloud (a journal entry). They are kept. */
  quarantine(params: {
    readonly run: string;
    readonly sequences: readonly number[];
    readonly reason: string;
  }): Promise<void>;

  /**
   * Only of a store that is open for reading: runs that were left out of an answer of `listRuns` because the database holds less of
   * them than was written. Reading one of them is STORE_CUT; the others stay readable.
   */
  withheld?(): readonly CutRun[];
  /**
   * Frees the space that the store keeps for the last entries on a full disk, made when it was opened for writing; returns the bytes. For a
   * caller that gets DISK_FULL and must record that it waits. Absent: this store keeps none.
   */
  makeRoom?(): Promise<number>;
  stats(): Promise<StoreStats>;
  /** Small facts of the store itself (when gc last ran). Durable, last write wins. */
  getMeta(key: string): Promise<string | undefined>;
  setMeta(key: string, value: string): Promise<void>;
  /** Settles what is under way, releases the leases held, then lets go. A second call is no error; every other call after it rejects. */
  close(): Promise<void>;
}

export interface CutRun {
  readonly number: number;
  /** null: nothing of the run is left, not even its name. */
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

export interface SlotClaim {
  /** How many runs with a place may be at work at once; null: this one works whatever their number. */
  readonly limit: number | null;
  /** Where there is none, the lease is taken all the same, as one that waits: by priority (a fact of the store), then by age. */
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

export interface Commit {
  readonly lease: Lease;
  readonly entries?: readonly NewEntry[];
  readonly checkpoint?: NewCheckpoint;
}

export interface NewCheckpoint {
  /**
   * The sequence the caller reckons with (its git ref carries it): CONFLICT when it is not the next one.
   * Absent: the next one, whatever it is.
   */
  readonly sequence?: number;
  readonly trigger: Trigger;
  readonly name?: string;
  readonly planes: Planes;
  /** Of a fork's first checkpoint; elsewhere the run's newest checkpoint is the parent and this is not looked at. */
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
  readonly packs: number;
  readonly blobs: number;
  readonly temporaryFiles: number;
  readonly freedBytes: number;
  readonly recompressed: number;
}

export interface VerifyParams {
  readonly run?: string;
  readonly scope?: "all" | "journal";
  readonly signal?: AbortSignal;
}

export type VerifyEvent =
  | { readonly kind: "problem"; readonly problem: Problem }
  | { readonly kind: "progress"; readonly run: string; readonly checked: number }
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
   * PIN_MISSING: the objects are there, but nothing keeps git from collecting them. PIN_MOVED: the ref of the checkpoint names another
   * object. HIGH_WATER_CUT: the record of how far the run had come is gone. STORE_ROLLED_BACK: the repository has refs of newer checkpoints
   * of the run than the store knows.
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
  /** Last journal entry of the run that can still be trusted; null when it is not about a run. */
  readonly trustedTo: number | null;
  /** Newest checkpoint of the run that is whole; null when there is none. */
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

/** What every store refuses, in the same words. */

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

export function slotLimitReached(params: {
  readonly run: string;
  readonly limit: number | null;
  readonly working: readonly SlotLease[];
  readonly ahead: readonly SlotLease[];
}): HoldfastError {
  const { run, limit, working, ahead } = params;
  const who = working.map(({ lease }) => `${lease.run} (pid ${lease.owner.pid} on ${lease.owner.host})`);
  const queue = ahead.length === 0 ? "" : `; ${ahead.map(({ lease }) => lease.run).join(", ")} will be next`;
  return new HoldfastError({
    code: "LOOP_LIMIT",
    message: `${run} must wait: ${limit === 1 ? "one loop" : `${limit ?? 0} loops`} may be at work here at once, now ${who.join(", ") || "none"}${queue}`,
    hint: "Wait for a place with --wait, go over the limit with --force, or raise `loops.max` in holdfast.config.yaml. `holdfast loops` shows them all.",
    retry: "later",
    data: { run, limit, working: working.map(brief), waiting: ahead.map(brief) },
  });
}

function brief({ lease, priority }: SlotLease): object {
  const { pid, host } = lease.owner;
  return { run: lease.run, pid, host, priority, since: lease.takenAt, heartbeatAt: lease.heartbeatAt };
}

export function leaseLost(params: {
  readonly run: string;
  readonly epoch: number;
  readonly current: Lease | null;
}): HoldfastError {
  const { current } = params;
  const why = current === null ? "it was released" : `${current.owner.label} holds epoch ${current.epoch} now`;
  return new HoldfastError({
    code: "LEASE_LOST",
    message: `The lease on ${params.run} with epoch ${params.epoch} is not valid any more: ${why}`,
    hint: "Nothing was written. Take the lease again and replay the journal before going on.",
    data: { run: params.run, epoch: params.epoch, current },
  });
}

export function sequenceConflict(params: {
  readonly run: string;
  readonly expected: number;
  readonly next: number;
}): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The next checkpoint of ${params.run} is ${params.next}, not ${params.expected}`,
    hint: "Read the run's newest checkpoint and try again on top of it.",
    data: params,
  });
}

export function effectConflict(params: { readonly run: string; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `An effect of ${params.run} does not fit its ledger: ${params.why}`,
    hint: "Use another key for another payload, and record an intent before its outcome.",
    data: params,
  });
}

export function tagExists(params: {
  readonly run: string;
  readonly name: string;
  readonly sequence: number;
}): HoldfastError {
  return new HoldfastError({
    code: "TAG_EXISTS",
    message: `The tag ${params.name} of ${params.run} already names checkpoint ${params.sequence}`,
    hint: "Choose another name, or ask for the tag to be moved.",
    data: params,
  });
}

export function dropConflict(params: { readonly id: CheckpointId; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The checkpoint ${params.id} cannot be dropped: ${params.why}`,
    hint: "Nothing was dropped. Remove the tag first, or leave this checkpoint out.",
    data: { checkpoint: params.id, why: params.why },
  });
}

export function storeClosed(location: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `The store ${location} is closed`,
    hint: "Open it again.",
    data: { location },
  });
}

/** Made, and killed before its first checkpoint. */
export function runNotStarted(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: `Run ${run} has not begun: it has no checkpoint`,
    hint: `Start it anew with \`holdfast run\` and the same words, or end it: \`holdfast abort ${run}\`.`,
    data: { run },
  });
}

/** RUN_NOT_FOUND where there is none. */
export async function knownRun(store: Pick<Store, "getRun">, run: string): Promise<RunSummary> {
  const summary = await store.getRun(run);
  if (summary === undefined) throw runNotFound(run);
  return summary;
}

const PAGE = 500;

/** Every checkpoint of a run, newest first, read in pages: memory does not follow the history's length. */
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
 * The newest checkpoint that the store can give back, and the sequences of newer ones that it cannot. For those who look: one
 * damaged page must not hide everything else that is known of a run.
 */
export async function newestUsable(
  store: Store,
  run: string,
): Promise<{ readonly checkpoint: Checkpoint | undefined; readonly damaged: readonly number[] }> {
  const damaged: number[] = [];
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

/** What is wrong with the entries of a run, their chain, and what is folded from them; not with what its checkpoints hold. */
export async function journalDamage(store: Store, run: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const event of store.verify({ run, scope: "journal" }))
    if (event.kind === "problem") found.push(event.problem.what);
  return found;
}

// The store port over a driver: captures arguments in the call, then queues a write or answers from one snapshot.

import type { Clock } from "@holdfast/platform/clock";
import type { ProcessIdentity } from "@holdfast/platform/identity";
import {
  type ProcessLock,
  holdProcessLock,
  listProcessLocks,
  sweepProcessLocks,
} from "@holdfast/platform/process-lock";
import type { Planes } from "../checkpoint.ts";
import type { JournalEntry } from "../journal.ts";
import { deepFreeze } from "../json.ts";
import { DEFAULT_STALE_AFTER_MS, type Lease } from "../lease.ts";
import { checkTagName } from "../run.ts";
import { type StoredSignal, captureSignal } from "../signal.ts";
import { captureNewRun, checkRunId, checkSequence, claimOf, othersOf } from "../store-commit.ts";
import { type CommitBody, type CreatedRun, type CutRun, type Store, storeClosed } from "../store.ts";
import {
  addTag,
  captureForSql,
  commit,
  createRun,
  drop,
  moveSignal,
  putSignal,
  quarantine,
  removeTag,
  setFact,
} from "./changes.ts";
import type { Driver, ReadTransaction } from "./driver.ts";
import { endToken, lockDirectory, releaseLease, renewLease, takeLease } from "./leases.ts";
import {
  type RunRef,
  cutError,
  findCuts,
  findRun,
  findTombstones,
  getCheckpoint,
  getRun,
  isPlanes,
  journalPage,
  latestCheckpoint,
  listCheckpoints,
  listEffects,
  listRuns,
  readStats,
  summarizeRun,
} from "./read.ts";
import { readLease, readLeases, readSignals } from "./records.ts";
import { FACT, getMeta, integer } from "./schema.ts";
import { sweep } from "./sweep.ts";
import { type ValueMemory, createValueMemory } from "../chunks.ts";
import { checkStoredRun, exportRun, importRun } from "./transfer.ts";
import { capture } from "../values.ts";
import { verify } from "./verify.ts";
import { watchEntries } from "./watch.ts";
import { type Handle, type Job, type Needs, type Writing, createGroup, momentsOf } from "./write.ts";

const PAGE = 256;
const NO_SIGNALS: readonly StoredSignal[] = Object.freeze([]);

export function createSqlStore(params: {
  readonly driver: Driver;
  readonly id: string;
  readonly access: "write" | "read";
  /** null: the store has no directory, so no lock file shows that this handle's process is alive. */
  readonly directory: string | null;
  /** False for a handle that takes leases as another process, whose lock it cannot hold. */
  readonly locks: boolean;
  readonly token: string;
  readonly identity: ProcessIdentity;
  readonly clock: Clock;
}): Store {
  const { driver, id, token } = params;
  const { location } = driver;
  const handle: Handle = {
    driver,
    storeId: id,
    directory: params.directory,
    token,
    identity: params.identity,
    now: momentsOf(params.clock),
  };
  /** For each run that this handle writes: what the next state is compared with. */
  const memories = new Map<string, ValueMemory>();
  const held = new Map<string, Lease>();
  /** Of the runs whose lease this handle holds: where their rows are found, which never changes. */
  const places = new Map<string, RunRef>();
  const listeners = new Set<() => void>();
  let closing: Promise<void> | undefined;
  const notify = (): void => {
    for (const listener of listeners) listener();
  };
  const group = createGroup({ handle, committed: notify, onDistrust: () => endToken(token) });
  const cuts = createCuts(driver, id, params.access);
  const locks = params.directory === null ? null : lockDirectory(params.directory);
  let lock: ProcessLock | null | undefined;

  /** Before the first lease: without its lock file a lease does not show that a stopped process is alive. */
  function holdLock(): void {
    if (lock !== undefined || locks === null || !params.locks) return;
    lock = holdProcessLock(locks, token);
  }

  /** Removes the lock files of dead processes. That of a dead owner is kept until its lease is taken over. */
  async function sweepLocks(): Promise<void> {
    if (locks === null) return;
    const others = listProcessLocks(locks).filter((name) => name !== token);
    if (others.length === 0) return;
    const owners = new Set((await read((tx) => readLeases(tx))).map(({ owner }) => owner.token));
    sweepProcessLocks(
      locks,
      others.filter((name) => !owners.has(name)),
    );
  }

  function memoryOf(run: string): ValueMemory {
    const memory = memories.get(run) ?? createValueMemory();
    memories.set(run, memory);
    return memory;
  }

  function forget(lease: Lease): void {
    if (held.get(lease.run)?.epoch === lease.epoch) held.delete(lease.run);
    memories.delete(lease.run);
    places.delete(lease.run);
  }

  function checkOpen(): void {
    if (closing !== undefined) throw storeClosed(location);
  }

  /** Arguments are checked and captured in here, before the promise is returned. */
  function write<T>(needs: () => Needs, prepare: () => Job<T>): Promise<T> {
    try {
      checkOpen();
      return group.submit(needs(), prepare());
    } catch (error) {
      return Promise.reject(driver.toError(error));
    }
  }

  async function read<T>(work: (tx: ReadTransaction) => Promise<T>): Promise<T> {
    checkOpen();
    try {
      return await driver.read(work);
    } catch (error) {
      throw driver.toError(error);
    }
  }

  async function readRun<T>(run: string, work: (tx: ReadTransaction, run: RunRef) => Promise<T>): Promise<T> {
    checkRunId(run);
    return read(async (tx) => {
      await cuts.refuse(tx, run);
      const place = places.get(run) ?? (await findRun(tx, run));
      if (held.has(run)) places.set(run, place);
      return work(tx, place);
    });
  }

  async function* readJournal(query: {
    readonly run: string;
    readonly after?: number;
    readonly limit?: number;
  }): AsyncGenerator<JournalEntry> {
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    let reached = query.after ?? 0;
    while (left > 0) {
      const wanted = Math.min(PAGE, left);
      const from = reached;
      const page = await readRun(query.run, (tx, { number, run }) =>
        journalPage(tx, { number, id: run.id }, from, wanted),
      );
      for (const entry of page) {
        yield entry;
        reached = entry.entry;
        left -= 1;
      }
      if (page.length < wanted) return;
    }
  }

  /** For each run that had no signals: the version of the database in which it had none. */
  const quiet = new Map<string, string>();
  let ownSignals = 0;

  async function listSignals(run: string): Promise<readonly StoredSignal[]> {
    // Read before the signals: a commit in between changes it again.
    const version = signalsVersion();
    if (version !== null && quiet.get(run) === version) return NO_SIGNALS;
    const signals = Object.freeze(await readRun(run, (tx, { number }) => readSignals(tx, number)));
    if (signals.length === 0 && version !== null) quiet.set(run, version);
    return signals;
  }

  function signalsVersion(): string | null {
    checkOpen();
    try {
      const version = driver.version();
      return version === null ? null : `${ownSignals} ${version}`;
    } catch (error) {
      throw driver.toError(error);
    }
  }

  /** The version of the database does not count this handle's own commits. */
  async function writeSignal<T>(needs: () => Needs, prepare: () => Job<T>): Promise<T> {
    const result = await write(needs, prepare);
    ownSignals += 1;
    driver.signalled?.();
    return result;
  }

  async function shut(): Promise<void> {
    await Promise.allSettled(
      [...held.values()].map((lease) => group.submit({ runs: [lease.run] }, releaseLease(handle, lease))),
    );
    await group.idle();
    notify();
    endToken(token);
    lock?.release();
    driver.highWater?.close();
    try {
      await driver.close();
    } catch (error) {
      throw driver.toError(error);
    }
  }

  return {
    id,
    location,

    createRun: (run) =>
      write(
        () => ({ runs: [run.id] }),
        () => {
          const { plan, make } = createRun(handle, captureNewRun(run));
          return async (writing) => (plan(writing) ?? (await make(writing))).run;
        },
      ),
    async getRun(run) {
      checkRunId(run);
      return read(async (tx) => {
        await cuts.refuse(tx, run);
        const found = await getRun(tx, run);
        if (found === undefined) await cuts.refuseNameless(tx);
        return found;
      });
    },
    listRuns: (query = {}) => read(async (tx) => listRuns(tx, query, await cuts.hide(tx))),

    async takeLease({ run, label, staleAfterMs = DEFAULT_STALE_AFTER_MS, over, slot, birth }) {
      const { lease, place, created } = await write(
        () => ({ runs: [run], slots: slot !== undefined, clock: true }),
        () => {
          holdLock();
          const born = birth === undefined ? undefined : captureNewRun({ ...birth, id: run });
          const take = takeLease(handle, { run: checkRunId(run), label, staleAfterMs, over, slot, born });
          const first = birth?.first === undefined ? null : captureFirst(birth.first, memoryOf(run));
          return async (writing) => {
            const wasThere = writing.findHead(run) !== undefined;
            const taken = await take(writing);
            const begun = first === null ? null : await begin(handle, writing, taken, first);
            return { lease: taken, place: writing.head(run), created: wasThere ? null : begun };
          };
        },
      );
      const isNew = held.get(run)?.epoch !== lease.epoch;
      held.set(run, lease);
      places.set(run, { number: place.number, run: place.run });
      // A file that is not removed costs nothing; gc tries again.
      if (isNew) await sweepLocks().catch(() => undefined);
      return created === null ? lease : Object.freeze({ ...lease, created });
    },
    renewLease: (lease) =>
      write(
        () => ({ runs: [lease.run], clock: true }),
        () => renewLease(handle, lease),
      ),
    async releaseLease(lease) {
      await write(
        () => ({ runs: [lease.run] }),
        () => releaseLease(handle, lease),
      );
      forget(lease);
    },
    getLease: (run) => readRun(run, async (tx, { number }) => (await readLease(tx, { number, id: run })) ?? undefined),
    listLeases: () => read(async (tx) => Object.freeze(await readLeases(tx))),
    async now() {
      const { clock } = driver;
      return clock === null ? handle.now().ms : read(async (tx) => integer((await tx.all(clock))[0] ?? {}, "now"));
    },

    commit(wish) {
      const { lease, release } = wish;
      const committed = write(
        () => ({ runs: [lease.run] }),
        () => {
          const job = commit(handle, claimOf(lease), captureForSql(wish, memoryOf(checkRunId(lease.run))));
          if (release !== true) return job;
          return async (writing) => {
            const done = await job(writing);
            await releaseLease(handle, lease)(writing);
            return done;
          };
        },
      );
      if (release === true) committed.then(() => forget(lease)).catch(() => undefined);
      return committed;
    },

    async getCheckpoint({ run, sequence }) {
      checkSequence(sequence);
      return readRun(run, (tx, found) => getCheckpoint(tx, found, sequence));
    },
    latest: (run) => readRun(run, latestCheckpoint),
    listCheckpoints: (query) => readRun(query.run, (tx, run) => listCheckpoints(tx, run, query)),

    readJournal,
    watch({ run, after, patient = false, signal }) {
      checkOpen();
      if (run !== undefined) checkRunId(run);
      const watch = watchEntries(driver, {
        run: run ?? null,
        after: after ?? null,
        patient,
        signal,
        isClosed: () => closing !== undefined,
        check: (tx, one) => cuts.refuse(tx, one),
        onCommit(listener) {
          listeners.add(listener);
          return () => listeners.delete(listener);
        },
      });
      group.hold(watch.started);
      return watch.entries;
    },

    listEffects: (run) => readRun(run, listEffects),

    putSignal: (signal) =>
      writeSignal(
        () => ({ runs: [signal.run], once: true }),
        () => putSignal(captureSignal({ ...signal, run: checkRunId(signal.run) })),
      ),
    listSignals: (run) =>
      run === undefined ? read(async (tx) => Object.freeze(await readSignals(tx, null))) : listSignals(run),
    moveSignal: ({ run, id, from, to }) =>
      writeSignal(
        () => ({ runs: [run], once: true }),
        () => moveSignal({ run: checkRunId(run), id, from, to }),
      ),

    tag: ({ run, sequence, name, move = false, from = [], by }) =>
      write(
        () => ({ runs: [run, ...from] }),
        () =>
          addTag(handle, {
            run: checkRunId(run),
            sequence: checkSequence(sequence),
            name: checkTagName(name),
            move,
            from: othersOf(run, from),
            by,
          }),
      ),
    untag: ({ run, name, by }) =>
      write(
        () => ({ runs: [run] }),
        () => removeTag(handle, { run: checkRunId(run), name: String(name), by }),
      ),

    drop: ({ run, drops }) =>
      write(
        () => ({ runs: [run] }),
        () =>
          drop(handle, {
            run: checkRunId(run),
            drops: drops.map(({ sequence, why }) => ({ sequence: checkSequence(sequence), why: String(why) })),
          }),
      ),
    listTombstones: (run) => readRun(run, async (tx, found) => Object.freeze(await findTombstones(tx, found))),

    async sweep(options = {}) {
      try {
        checkOpen();
        // Chunks are compressed when they are written, so there is nothing to compress later.
        const report = await sweep(driver, group, { dryRun: options.dryRun ?? false });
        if (options.dryRun !== true) await sweepLocks();
        return report;
      } catch (error) {
        throw driver.toError(error);
      }
    },

    async *verify(options = {}) {
      try {
        if (options.run !== undefined) checkRunId(options.run);
        yield* verify(driver, { ...options, storeId: id, checkOpen });
      } catch (error) {
        throw driver.toError(error);
      }
    },
    quarantine: ({ run, sequences, reason }) =>
      write(
        () => ({ runs: [run] }),
        () =>
          quarantine(handle, {
            run: checkRunId(run),
            sequences: sequences.map(checkSequence),
            reason: String(reason),
          }),
      ),

    exportRun: (run) =>
      readRun(run, async (tx, { number, run: born }) => deepFreeze(await exportRun(tx, number, born))),
    async importRun({ stored, label, first, copy = false }) {
      checkOpen();
      const checked = await checkStoredRun(stored);
      return await write(
        () => ({ runs: [checked.run.id] }),
        () => importRun(handle, { checked, label, first, copy, memory: createValueMemory() }),
      );
    },

    ...(driver.changes === undefined ? {} : { changes: driver.changes }),
    ...(params.access === "read" ? { withheld: cuts.withheld } : {}),
    makeRoom: async () => driver.makeRoom(),
    stats: () => read((tx) => readStats(tx, driver)),
    getMeta: (key) => read((tx) => getMeta(tx, FACT + key)),
    setMeta: (key, value) =>
      write(
        () => ({ runs: [] }),
        () => setFact(String(key), String(value)),
      ),

    close() {
      closing ??= shut();
      return closing;
    },
  };
}

interface FirstCommit {
  readonly captured: ReturnType<typeof captureForSql>;
  readonly planes: Planes | null;
}

function captureFirst(first: CommitBody, memory: ValueMemory): FirstCommit {
  const planes = first.checkpoint === undefined ? null : capture(first.checkpoint.planes);
  return { captured: captureForSql(first, memory), planes: planes !== null && isPlanes(planes) ? planes : null };
}

/** Makes the first commit of a run that has no checkpoint. Returns the run as a reader will find it; null: it had one, or gets none. */
async function begin(
  handle: Handle,
  writing: Writing,
  lease: Lease,
  { captured, planes }: FirstCommit,
): Promise<CreatedRun | null> {
  if (writing.head(lease.run).sequence > 0) return null;
  const { checkpoint } = await commit(handle, claimOf(lease), captured)(writing);
  if (checkpoint === null || planes === null) return null;
  return Object.freeze({
    run: summarizeRun({ ...writing.head(lease.run), latest: checkpoint }),
    first: Object.freeze({ ...checkpoint, planes }),
  });
}

/** Runs of which a reader's files hold less than was written: refused one by one, while the others stay readable. A writer is never opened on them. */
interface Cuts {
  /** STORE_CUT for a run that was cut. */
  refuse(tx: ReadTransaction, run: string): Promise<void>;
  /** A run that is gone altogether has left no name: a run that is not found may be this one. */
  refuseNameless(tx: ReadTransaction): Promise<void>;
  /** Numbers of the runs that a list leaves out; they are reported by `withheld`. */
  hide(tx: ReadTransaction): Promise<ReadonlySet<number>>;
  readonly withheld: () => readonly CutRun[];
}

function createCuts(driver: Driver, storeId: string, access: "write" | "read"): Cuts {
  const withheld = new Map<number, CutRun>();
  let known: { readonly generation: number; readonly cuts: readonly CutRun[] } | undefined;

  async function current(tx: ReadTransaction): Promise<readonly CutRun[]> {
    if (access === "write" || driver.highWater === null) return [];
    const generation = driver.generation();
    if (known?.generation !== generation) {
      // The mark is read first; the snapshot begins with the first question.
      const mark = driver.highWater.read();
      known = { generation, cuts: await findCuts(tx, mark, { storeId, damaged: "skip" }) };
    }
    return known.cuts;
  }

  function refuse(cut: CutRun | undefined): void {
    if (cut !== undefined) throw cutError(driver.location, driver.highWater?.path ?? "", cut);
  }

  return {
    refuse: async (tx, run) => refuse((await current(tx)).find((cut) => cut.run === run)),
    refuseNameless: async (tx) => refuse((await current(tx)).find((cut) => cut.run === null)),
    async hide(tx) {
      const cuts = await current(tx);
      for (const cut of cuts) withheld.set(cut.number, cut);
      return new Set(cuts.map(({ number }) => number));
    },
    withheld: () => [...withheld.values()],
  };
}

import { type RunSummary, checkTagName } from "@holdfast/core/run";
import { getCheckpoint, latestCheckpoint, listCheckpoints } from "./checkpoints.ts";
import { commit } from "./commit.ts";
import { createRun } from "./create-run.ts";
import { drop, tombstonesOf } from "./sweep/drops.ts";
import { createEffects } from "./effects.ts";
import { createFacts } from "./facts.ts";
import type { Job } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import { endToken } from "./handle-tokens.ts";
import { journalPage } from "./journal.ts";
import { releaseLease, renewLease, takeLease } from "./leases.ts";
import { createQuarantine, quarantineCheckpoints } from "./verify/quarantine.ts";
import { releaseReserve } from "./reserve.ts";
import { summarise } from "./run-summary.ts";
import type { RunRow } from "./runs.ts";
import { asHoldfastError } from "./sqlite-errors.ts";
import { statsOf } from "./stats.ts";
import { sweep } from "./sweep/sweep.ts";
import { addTag, createTags, removeTag } from "./tags.ts";
import { tellErrors } from "./tell-errors.ts";
import { createTombstones } from "./sweep/tombstones.ts";
import { verify } from "./verify/verify.ts";
import { watch } from "./watch.ts";
import {
  type RunMemory,
  captureCommit,
  captureNewRun,
  checkRunId,
  checkSequence,
  checkTime,
  createRunMemory,
  othersOf,
} from "@holdfast/core/store-commit";
import type { JournalEntry } from "@holdfast/core/journal";
import { DEFAULT_STALE_AFTER_MS, type Lease } from "@holdfast/core/lease";
import { type Store, runNotFound, storeClosed } from "@holdfast/core/store";

const PAGE = 256;

function catchUp(handle: Handle): Job<void, void> {
  return {
    plan: () => {},
    apply() {
      handle.places.index("now");
      handle.packs.index("now");
      handle.bundler.bundle("now");
    },
  };
}

/** The port over one handle: captures arguments in the call, then queues a write or answers from one read. */
export function createSqliteStore(params: {
  readonly id: string;
  readonly handle: Handle;
  readonly onClose: () => void;
}): Store {
  const { handle } = params;
  const { db, layout, runs, transactions } = handle;
  const location = layout.directory;
  const tags = createTags(db);
  const tombstones = createTombstones(db);
  const quarantine = createQuarantine(db);
  const effects = createEffects(db);
  const facts = createFacts(db);
  const books = { tags, tombstones, quarantine };
  /** For each run this handle writes: what its next planes are compared with. */
  const memories = new Map<string, RunMemory>();
  const held = new Map<string, Lease>();
  let closing: Promise<void> | undefined;

  function open(): void {
    if (closing !== undefined) throw storeClosed(location);
  }

  /** Arguments are checked and captured in here, before the promise is returned. */
  function write<Plan, Result>(prepare: () => Job<Plan, Result>): Promise<Result> {
    try {
      open();
      return handle.group.submit(prepare());
    } catch (error) {
      return Promise.reject(asHoldfastError(error, location));
    }
  }

  function memoryOf(run: string): RunMemory {
    const known = memories.get(run);
    if (known !== undefined) return known;
    const memory = createRunMemory({ small: true });
    memories.set(checkRunId(run), memory);
    return memory;
  }

  function readNow<T>(work: () => T): T {
    open();
    try {
      return transactions.read(work);
    } catch (error) {
      throw asHoldfastError(error, location);
    }
  }

  async function read<T>(work: () => T): Promise<T> {
    return readNow(work);
  }

  function rowOf(run: string): RunRow {
    const row = runs.byId(checkRunId(run));
    if (row === undefined) throw runNotFound(run);
    return row;
  }

  async function* readJournal(query: {
    readonly run: string;
    readonly after?: number;
    readonly limit?: number;
  }): AsyncGenerator<JournalEntry> {
    const row = readNow(() => rowOf(query.run));
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    let reached = query.after ?? 0;
    while (left > 0) {
      const page = readNow(() => journalPage(handle, { no: row.no, id: row.run.id }, reached, Math.min(PAGE, left)));
      if (page.length === 0) return;
      for (const entry of page) {
        yield entry;
        reached = entry.entry;
        left -= 1;
      }
    }
  }

  async function shut(): Promise<void> {
    await Promise.allSettled([...held.values()].map((lease) => handle.group.submit(releaseLease(handle, lease))));
    await handle.group.idle();
    handle.stop();
    // So that the next handle finds nothing left to catch up with. It would do without.
    if (handle.places.hasWritten()) await handle.group.submit(catchUp(handle)).catch(() => {});
    handle.witness.close();
    for (const listener of handle.listeners) listener();
    endToken(handle.token);
    try {
      params.onClose();
    } catch (error) {
      throw asHoldfastError(error, location);
    }
  }

  return {
    id: params.id,
    location,

    createRun: (run) => write(() => createRun(handle, captureNewRun(run))),
    getRun: (id) =>
      read(() => {
        const row = runs.byId(checkRunId(id));
        return row === undefined ? undefined : summarise(handle, quarantine, row);
      }),
    listRuns: (query = {}) =>
      read(() => {
        const found: RunSummary[] = [];
        const limit = query.limit ?? Number.POSITIVE_INFINITY;
        let before = Number.MAX_SAFE_INTEGER;
        while (found.length < limit) {
          const page = runs.page(before, PAGE);
          for (const row of page) {
            before = row.no;
            if (query.workflow !== undefined && row.run.workflow !== query.workflow) continue;
            if (found.length < limit) found.push(summarise(handle, quarantine, row));
          }
          if (page.length === 0) break;
        }
        return Object.freeze(found);
      }),

    async takeLease({ run, label, staleAfterMs = DEFAULT_STALE_AFTER_MS, slot, birth }) {
      const lease = await write(() => {
        const born = birth === undefined ? undefined : captureNewRun({ ...birth, id: run });
        return takeLease(handle, facts, { run: checkRunId(run), label, staleAfterMs, slot, born });
      });
      held.set(run, lease);
      return lease;
    },
    renewLease: (lease) => write(() => renewLease(handle, lease)),
    async releaseLease(lease) {
      await write(() => releaseLease(handle, lease));
      if (held.get(lease.run)?.epoch === lease.epoch) held.delete(lease.run);
      memories.delete(lease.run);
    },
    getLease: (run) => read(() => rowOf(run).lease ?? undefined),
    listLeases: () => read(() => Object.freeze(runs.leases())),

    commit(wish) {
      try {
        open();
        const memory = memoryOf(wish.lease.run);
        return handle.group.submit(commit(handle, effects, captureCommit(wish, memory), memory));
      } catch (error) {
        return Promise.reject(asHoldfastError(error, location));
      }
    },

    getCheckpoint: ({ run, sequence }) => read(() => getCheckpoint(handle, books, rowOf(run), checkSequence(sequence))),
    latest: (run) => read(() => latestCheckpoint(handle, books, rowOf(run))),
    listCheckpoints: (query) => read(() => listCheckpoints(handle, books, rowOf(query.run), query)),

    readJournal,
    watch: ({ run, after, signal }) => {
      const row = run === undefined ? null : readNow(() => rowOf(run));
      const query = { run: row, after: after ?? null, signal, closed: () => closing !== undefined };
      return tellErrors(
        readNow(() => watch(handle, query)),
        location,
      );
    },

    listEffects: (run) => read(() => Object.freeze(effects.list(rowOf(run).no))),

    tag: ({ run, sequence, name, move = false, from = [] }) =>
      write(() =>
        addTag(handle, books, {
          run: checkRunId(run),
          sequence: checkSequence(sequence),
          name: checkTagName(name),
          move,
          from: othersOf(run, from),
        }),
      ),
    untag: ({ run, name }) => write(() => removeTag(handle, tags, { run: checkRunId(run), name })),

    drop: ({ run, drops }) =>
      write(() =>
        drop(handle, books, {
          run: checkRunId(run),
          drops: drops.map((wish) => ({ sequence: checkSequence(wish.sequence), why: String(wish.why) })),
        }),
      ),
    listTombstones: (run) =>
      read(() => {
        const row = rowOf(run);
        return tombstonesOf(handle, row.run.id, tombstones.list(row.no));
      }),

    async sweep(options = {}) {
      try {
        open();
        return await sweep(handle, {
          compressBefore: options.compressBefore === undefined ? null : checkTime(options.compressBefore),
          dryRun: options.dryRun ?? false,
        });
      } catch (error) {
        throw asHoldfastError(error, location);
      }
    },

    verify: (options = {}) => tellErrors(verify(handle, books, effects, { ...options, open }), location),
    quarantine: ({ run, sequences, reason }) =>
      write(() =>
        quarantineCheckpoints(handle, books, {
          run: checkRunId(run),
          sequences: sequences.map(checkSequence),
          reason: String(reason),
        }),
      ),

    makeRoom: async () => releaseReserve(layout),
    stats: () => read(() => statsOf(handle)),
    getMeta: (key) => read(() => facts.get(key)),
    setMeta: (key, value) => write(() => facts.set(String(key), String(value))),

    close() {
      closing ??= shut();
      return closing;
    },
  };
}

// The memory store: the reference implementation of the store contract, without durability.

import { isDeepStrictEqual } from "node:util";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { type ProcessIdentity, processIdentity, randomId } from "@holdfast/platform/identity";
import type { Checkpoint, CheckpointSummary, Planes } from "./checkpoint.ts";
import { type ValueMemory, createValueMemory, encodeValue } from "./chunks.ts";
import { foldEffects } from "./effects.ts";
import { type JournalEntry, birthDigest, birthRecord, entryHash } from "./journal.ts";
import { type Json, deepFreeze, sha256 } from "./json.ts";
import { DEFAULT_STALE_AFTER_MS } from "./lease.ts";
import { type Run, type RunSummary, checkTagName } from "./run.ts";
import { captureSignal } from "./signal.ts";
import { NEW_RUN, foldRun, unfinishedTarget } from "./status.ts";
import { captureCommit, captureNewRun, checkRunId, checkSequence, othersOf, sameBirth } from "./store-commit.ts";
import {
  type MemoryCheckpoint,
  type MemoryPlanes,
  type MemoryRun,
  type MemoryState,
  append,
  commit,
  createMemoryState,
  drop,
  releaseLease,
  renewLease,
  takeLease,
} from "./store-memory-write.ts";
import {
  type NewRun,
  type Problem,
  type Store,
  type VerifyEvent,
  checkpointDropped,
  checkpointNotFound,
  runExists,
  runNotFound,
  storeClosed,
  tagExists,
} from "./store.ts";
import { canonicalJson, capture } from "./values.ts";

interface OpenMemoryParams {
  /** Shared by the handles of one store; a new one when absent. */
  readonly world?: MemoryState;
  readonly clock?: Clock;
  readonly identity?: ProcessIdentity;
}

/**
 * The reference implementation in plain JavaScript, in which every call is one synchronous step. It keeps every promise of the contract
 * except durability.
 */
export function openMemoryStore(params: OpenMemoryParams = {}): Store {
  const world = params.world ?? createMemoryState();
  const clock = params.clock ?? systemClock;
  const owner = { token: randomId(), ...(params.identity ?? processIdentity()) };
  const memories = new Map<string, StateMemory>();
  let closed = false;

  const at = (): string => new Date(Math.trunc(clock.now())).toISOString();

  function open(): void {
    if (closed) throw storeClosed("memory");
  }

  /** Executes one step without interruption and turns its errors into rejections. */
  function step<T>(work: () => T): Promise<T> {
    try {
      open();
      return Promise.resolve(work());
    } catch (error) {
      return Promise.reject(error instanceof HoldfastError ? error : unexpected(error));
    }
  }

  function change<T>(work: () => T): Promise<T> {
    return step(() => {
      const result = work();
      for (const listener of world.listeners) listener();
      return result;
    });
  }

  function runOf(id: string): MemoryRun {
    const run = world.runs.get(checkRunId(id));
    if (run === undefined) throw runNotFound(id);
    return run;
  }

  /** Returns the existing run, or a new one that is not in the store yet. */
  function bear(wish: NewRun): MemoryRun {
    const born = captureNewRun(wish);
    const found = world.runs.get(born.id);
    if (found === undefined) return emptyRun(deepFreeze({ ...born, createdAt: at() }));
    if (!sameBirth(found.run, born)) throw runExists(born.id);
    return found;
  }

  function removeTag(run: MemoryRun, name: string): void {
    if (run.tags.delete(name)) append(world, run, { kind: "tag.removed", body: { name }, epoch: 0, at: at() });
  }

  function keep(born: MemoryRun): void {
    const { run } = born;
    if (world.runs.has(run.id)) return;
    world.runs.set(run.id, born);
    append(world, born, { kind: "run.created", body: birthRecord(run), epoch: 0, at: run.createdAt });
  }

  return {
    id: world.id,
    location: "memory",

    createRun: (wish) =>
      change(() => {
        const born = bear(wish);
        keep(born);
        return born.run;
      }),
    getRun: (id) =>
      step(() => {
        const run = world.runs.get(checkRunId(id));
        return run === undefined ? undefined : summaryOfRun(run);
      }),
    listRuns: (query = {}) =>
      step(() => {
        const wanted = [...world.runs.values()]
          .toReversed()
          .filter(({ run }) => query.workflow === undefined || run.workflow === query.workflow);
        return Object.freeze(wanted.slice(0, query.limit ?? wanted.length).map(summaryOfRun));
      }),

    takeLease: ({ run, label, staleAfterMs = DEFAULT_STALE_AFTER_MS, slot, birth }) =>
      change(() => {
        const taken = birth === undefined ? runOf(run) : bear({ ...birth, id: checkRunId(run) });
        const params = { owner: { ...owner, label }, now: Math.trunc(clock.now()), staleAfterMs, slot };
        return takeLease(world, taken, { ...params, make: () => keep(taken) });
      }),
    renewLease: (lease) => change(() => renewLease(runOf(lease.run), { lease, token: owner.token, at: at() })),
    releaseLease: (lease) =>
      change(() => releaseLease(world, runOf(lease.run), { lease, token: owner.token, at: at() })),
    getLease: (run) => step(() => runOf(run).lease ?? undefined),
    listLeases: () =>
      step(() => Object.freeze([...world.runs.values()].flatMap(({ lease }) => (lease === null ? [] : [lease])))),

    commit: (wish) =>
      change(() => {
        const run = checkRunId(wish.lease.run);
        const memory = memories.get(run) ?? { values: createValueMemory(), planes: undefined };
        memories.set(run, memory);
        const taken = captureCommit(wish, { entry: () => null, planes: (live) => capturePlanes(live, memory) });
        return commit(world, runOf(taken.lease.run), { captured: taken, token: owner.token, at: at() });
      }),

    getCheckpoint: ({ run, sequence }) => step(() => wholeOf(runOf(run), checkSequence(sequence))),
    latest: (id) =>
      step(() => {
        const run = runOf(id);
        const newest = sequencesDown(run).find((sequence) => !run.quarantined.has(sequence));
        return newest === undefined ? undefined : wholeOf(run, newest);
      }),
    listCheckpoints: (query) =>
      step(() => {
        const run = runOf(query.run);
        const wanted = sequencesDown(run)
          .filter((sequence) => sequence < (query.before ?? Number.POSITIVE_INFINITY))
          .map((sequence) => withMarks(run, checkpointOf(run, sequence).summary))
          .filter(({ trigger, stage }) => (query.trigger ?? trigger) === trigger && (query.stage ?? stage) === stage);
        return Object.freeze(wanted.slice(0, Math.max(query.limit ?? wanted.length, 0)));
      }),

    async *readJournal(query) {
      open();
      const { entries } = runOf(query.run);
      const after = query.after ?? 0;
      const until = after + (query.limit ?? Number.POSITIVE_INFINITY);
      for (let i = after; i < until; i++) {
        const entry = entries[i];
        if (entry === undefined) return;
        yield entry;
      }
    },
    watch: ({ run, after, signal }) => {
      open();
      return watchWorld(world, {
        run: run === undefined ? null : runOf(run),
        after: after ?? null,
        signal,
        closed: () => closed,
      });
    },

    listEffects: (run) =>
      step(() => Object.freeze([...runOf(run).effects.values()].sort((a, b) => (a.key < b.key ? -1 : 1)))),

    putSignal: (wish) =>
      change(() => {
        const { signals } = runOf(wish.run);
        const signal = captureSignal(wish);
        for (const { id, kind } of signals.values())
          if (kind === signal.kind && kind !== "checkpoint") signals.delete(id);
        signals.set(signal.id, deepFreeze({ ...signal, state: "pending" }));
      }),
    listSignals: (run) =>
      step(() => {
        const runs = run === undefined ? [...world.runs.values()] : [runOf(run)];
        return Object.freeze(runs.flatMap(({ signals }) => [...signals.values()]));
      }),
    moveSignal: ({ run, id, from, to }) =>
      change(() => {
        const { signals } = runOf(run);
        const signal = signals.get(id);
        if (signal?.state !== from) return false;
        if (to === null) signals.delete(id);
        else signals.set(id, deepFreeze({ ...signal, state: to }));
        return true;
      }),

    tag: ({ run: id, sequence, name, move = false, from = [] }) =>
      change(() => {
        checkTagName(name);
        const run = runOf(id);
        const losing = othersOf(id, from).map(runOf);
        const current = run.tags.get(name);
        if (current !== checkSequence(sequence)) {
          checkpointOf(run, sequence);
          if (current !== undefined && !move) throw tagExists({ run: id, name, sequence: current });
        }
        for (const other of losing) removeTag(other, name);
        if (current === sequence) return;
        run.tags.set(name, sequence);
        append(world, run, { kind: "tag.added", body: { name, sequence }, epoch: 0, at: at() });
      }),
    untag: ({ run: id, name }) => change(() => removeTag(runOf(id), name)),

    drop: ({ run, drops }) => change(() => drop(world, runOf(run), { drops, at: at() })),
    listTombstones: (run) =>
      step(() => Object.freeze([...runOf(run).tombstones.values()].sort((a, b) => a.sequence - b.sequence))),

    sweep: () =>
      step(() => {
        return Object.freeze({ chunks: 0, freedBytes: 0 });
      }),
    async *verify(options = {}) {
      open();
      const only = options.run === undefined ? null : runOf(options.run);
      for (const event of verifyWorld(world, { only, scope: options.scope ?? "all" })) {
        if (options.signal?.aborted === true)
          throw new HoldfastError({ code: "INTERRUPTED", message: "Verification was stopped", hint: "Run it again." });
        yield event;
      }
    },
    quarantine: ({ run: id, sequences, reason }) =>
      change(() => {
        const run = runOf(id);
        for (const sequence of sequences) checkpointOf(run, checkSequence(sequence));
        const fresh = [...new Set(sequences)].filter((sequence) => !run.quarantined.has(sequence));
        if (fresh.length === 0) return;
        for (const sequence of fresh) run.quarantined.add(sequence);
        append(world, run, { kind: "checkpoint.quarantined", body: { sequences: fresh, reason }, epoch: 0, at: at() });
      }),

    stats: () =>
      step(() => {
        const runs = [...world.runs.values()];
        const checkpoints = runs.flatMap((run) => [...run.checkpoints.values()]);
        return Object.freeze({
          runs: runs.length,
          entries: world.log.length,
          checkpoints: checkpoints.length,
          bytes: checkpoints.reduce((sum, { summary }) => sum + summary.size.added, 0),
          schema: 1,
          engine: "memory",
          durability: "none: gone with the process",
        });
      }),
    getMeta: (key) => step(() => world.facts.get(key)),
    setMeta: (key, value) => change(() => void world.facts.set(key, value)),

    close() {
      if (closed) return Promise.resolve();
      for (const run of world.runs.values()) {
        if (run.lease?.owner.token === owner.token)
          releaseLease(world, run, { lease: run.lease, token: owner.token, at: at() });
      }
      closed = true;
      for (const listener of world.listeners) listener();
      return Promise.resolve();
    },
  };
}

/** Of the state of a run that this handle committed last. */
interface StateMemory {
  readonly values: ValueMemory;
  planes: Json | undefined;
}

function capturePlanes(live: Planes, memory: StateMemory): MemoryPlanes {
  const captured = capture(live, memory.planes);
  memory.planes = captured;
  // capture() returns a value of the same shape.
  const planes = captured as Planes & Json;
  return { planes, encoded: encodeValue(planes, memory.values) };
}

function emptyRun(run: Run): MemoryRun {
  return {
    run,
    epoch: 0,
    lease: null,
    entries: [],
    fold: NEW_RUN,
    checkpoints: new Map(),
    sequence: 0,
    digest: null,
    tags: new Map(),
    effects: new Map(),
    signals: new Map(),
    tombstones: new Map(),
    quarantined: new Set(),
  };
}

function unexpected(cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "INTERNAL",
    message: `Unexpected failure in the memory store: ${cause instanceof Error ? cause.message : String(cause)}`,
    hint: "This is a defect; please report it with the message above.",
    cause,
  });
}

function sequencesDown(run: MemoryRun): readonly number[] {
  return [...run.checkpoints.keys()].sort((a, b) => b - a);
}

function checkpointOf(run: MemoryRun, sequence: number): MemoryCheckpoint {
  const found = run.checkpoints.get(sequence);
  if (found !== undefined) return found;
  const stone = run.tombstones.get(sequence);
  const id = `${run.run.id}@${sequence}` as const;
  throw stone === undefined
    ? checkpointNotFound(id)
    : checkpointDropped({ id, droppedAt: stone.droppedAt, why: stone.why });
}

function withMarks(run: MemoryRun, summary: CheckpointSummary): CheckpointSummary {
  const tags = [...run.tags].filter(([, sequence]) => sequence === summary.sequence).map(([name]) => name);
  const quarantined = run.quarantined.has(summary.sequence);
  return tags.length === 0 && !quarantined ? summary : deepFreeze({ ...summary, tags: tags.sort(), quarantined });
}

function wholeOf(run: MemoryRun, sequence: number): Checkpoint {
  const { summary, planes } = checkpointOf(run, sequence);
  return Object.freeze({ ...withMarks(run, summary), planes });
}

function summaryOfRun(run: MemoryRun): RunSummary {
  const newest = sequencesDown(run).find((sequence) => !run.quarantined.has(sequence));
  const latest = newest === undefined ? undefined : run.checkpoints.get(newest)?.summary;
  return deepFreeze({
    ...run.run,
    state: run.fold.state,
    unfinishedRestore: unfinishedTarget(run.fold),
    checkpoints: run.checkpoints.size,
    latest:
      latest === undefined
        ? null
        : { sequence: latest.sequence, createdAt: latest.createdAt, stage: latest.stage, iteration: latest.iteration },
    entries: run.entries.length,
  });
}

/** The starting position is fixed in the call: nothing committed before the first `next()` is missed. */
function watchWorld(
  world: MemoryState,
  query: {
    readonly run: MemoryRun | null;
    readonly after: number | null;
    readonly signal: AbortSignal;
    readonly closed: () => boolean;
  },
): AsyncIterable<JournalEntry> {
  const { run, signal } = query;
  const entries = run === null ? world.log : run.entries;
  const after = query.after ?? 0;
  let next = query.after === null ? entries.length : run === null ? 0 : after;

  async function* follow(): AsyncGenerator<JournalEntry> {
    while (!signal.aborted && !query.closed()) {
      const entry = entries[next];
      if (entry === undefined) {
        await change(world, signal);
        continue;
      }
      next += 1;
      if (entry.entry > after || query.after === null) yield entry;
    }
  }
  return follow();
}

function change(world: MemoryState, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    function done(): void {
      world.listeners.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    world.listeners.add(done);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}

/** Data in memory cannot be damaged at rest; this shows what verification means. */
function* verifyWorld(
  world: MemoryState,
  { only, scope }: { readonly only: MemoryRun | null; readonly scope: "all" | "journal" },
): Generator<VerifyEvent> {
  const runs = only === null ? [...world.runs.values()] : [only];
  let entries = 0;
  let checkpoints = 0;
  let problems = 0;
  for (const run of runs) {
    for (const what of verifyRun(run, scope)) {
      problems += 1;
      yield { kind: "problem", problem: problemOf(run, what) };
    }
    entries += run.entries.length;
    checkpoints += run.checkpoints.size;
    yield { kind: "progress", run: run.run.id, checked: run.entries.length };
  }
  yield {
    kind: "summary",
    ok: problems === 0,
    runs: runs.length,
    entries,
    checkpoints,
    chunks: world.chunks.size,
    problems,
  };
}

function* verifyRun(run: MemoryRun, scope: "all" | "journal"): Generator<string> {
  let previous = birthDigest(run.run);
  for (const [i, entry] of run.entries.entries()) {
    const link = { ...entry, body: canonicalJson(entry.body) };
    if (entry.entry !== i + 1 || entryHash(previous, link) !== entry.hash) yield `The chain breaks at ${i + 1}`;
    previous = entry.hash;
  }
  if (!isDeepStrictEqual(foldRun(run.entries), run.fold)) yield "The run's state differs from its journal";
  const ledger = new Map(foldEffects(run.entries).map((effect) => [effect.key, effect]));
  if (!isDeepStrictEqual(ledger, run.effects)) yield "The ledger of effects differs from the journal";
  if (scope === "journal") return;
  for (const [sequence, { planes, root }] of run.checkpoints) {
    if (sha256(encodeValue(planes).root) !== root)
      yield `The planes of checkpoint ${sequence} do not give their digest`;
  }
}

function problemOf(run: MemoryRun, what: string): Problem {
  return {
    code: "STORE_CORRUPT",
    run: run.run.id,
    entry: null,
    sequence: null,
    what,
    trustedTo: null,
    newestIntact: null,
  };
}

// A run in memory: how it is loaded from the store, and, in the process that holds its lease, the commits that change it.

import { HoldfastError } from "@holdfast/platform/error";
import { type Adapters, type CoreAdapters, snapshotParams } from "./adapters.ts";
import { type Resource, nearLimit, spendTime, usedText } from "./budget.ts";
import type {
  Checkpoint,
  CheckpointSummary,
  ConversationPlane,
  FilesPlane,
  Planes,
  Toolchain,
  Trigger,
} from "./checkpoint.ts";
import { type NewEntry, workingTime } from "./journal.ts";
import type { Digest } from "./json.ts";
import type { Lease } from "./lease.ts";
import type { Amounts, Budget, Position } from "./position.ts";
import { Halt, type ProgressEvent, type ProgressListener } from "./progress.ts";
import { firstChange } from "./recording.ts";
import type { Run } from "./run.ts";
import {
  type ApplyEvent,
  type FullAttempt,
  type LoadedState,
  type RunState,
  type SettledFiles,
  fullAttempt,
  loadState,
  markSettled,
  onlyReaders,
  planesOf,
  reduce,
  takeCheckpoint,
} from "./state.ts";
import type { Committed, Store } from "./store.ts";
import { capture } from "./values.ts";
import type { Workflow } from "./workflow.ts";
import type { Workspace } from "./workspace.ts";

export interface SaveRequest {
  readonly trigger: Trigger;
  readonly name?: string;
  /** Called when the files are durable and only the commit is left; returns the entries of the same commit. */
  readonly prepare?: (at: SavedAt) => readonly NewEntry[];
  /** Changes the checkpoint beyond the state after these entries. */
  readonly change?: (planes: Planes, at: SavedAt) => Planes;
  /** The files are as they should be, whatever is in flight. Default: true, unless only steps are in flight that must not change files. */
  readonly settles?: boolean;
  /** The commit releases the lease: it is the last one. */
  readonly release?: boolean;
}

export interface SavedAt {
  readonly sequence: number;
  readonly files: FilesPlane | null;
}

/** Adds entries of its own to a session, and may change or add checkpoints. A replay does this with what was recorded. */
export interface SessionDriver {
  /** Called once, when the session is loaded. */
  drive(session: RunSession): void;
  /** Called for each save that the engine requests. `save` makes one checkpoint. */
  save(request: SaveRequest, save: (request: SaveRequest) => Promise<CheckpointSummary>): Promise<CheckpointSummary>;
}

/**
 * A run in the process that holds its lease. Its state changes by commits only: `append` and `save` apply the entries with `reduce` and
 * write them.
 * The state is the speculative head. It changes in the same turn as the store's commit is called, so parallel steps see each other's
 * entries before the store has confirmed them. A failed commit is undone if no other was made on top of it. Otherwise work stops, because
 * later commits were decided on a state that is not durable.
 * Everything else here belongs to this process and is lost with it: listeners, timers, abort signals, counters of what it has reported.
 */
export class RunSession {
  readonly adapters: Adapters;
  readonly run: Run;
  readonly workspace: Workspace | undefined;
  halt = new Halt();
  /** Conversations of calls in side worktrees, by step. A checkpoint contains only the run's own conversation. */
  readonly sideTalks = new Map<string, ConversationPlane>();
  /** Lost calls whose result was kept before their process died: their files are not restored. */
  readonly answered = new Set<string>();
  /** Usage that running agent calls have reported so far, by step. The journal gets it when a call ends. */
  readonly usage = new Map<string, Amounts>();
  /** When this process last tried an effect, by key. */
  readonly acted = new Map<string, number>();
  /** When this process loaded the run; earlier processes had ended by then. Milliseconds since the epoch. */
  readonly began: number;
  /** How many steps that change the run's files have begun. */
  fileSteps = 0;
  /** What the next checkpoint records about lockfiles and programs. */
  toolchain: Toolchain | undefined;
  /** How many file placements are in progress. Meanwhile no checkpoint is taken on request, since it would contain half of the files. */
  placing = 0;
  /** Called before a checkpoint that no step takes; the callbacks fetch what only running agents know. */
  readonly beforeSave = new Set<() => Promise<void>>();
  #state: RunState;
  readonly #apply: ApplyEvent;
  readonly #definition: Digest;
  readonly #lease: Lease;
  readonly #listen: ProgressListener | undefined;
  readonly #driver: SessionDriver | undefined;
  /** The agent's conversation since the newest checkpoint; undefined: nothing new. */
  #talk: ConversationPlane | null | undefined;
  /** Resources for which the 80 % notice was emitted. */
  readonly #budgetReported: Set<Resource>;
  #entry: number;
  #top: number;
  #saved: { readonly entry: number; readonly at: number };
  /** Working time of earlier processes since the newest checkpoint, in milliseconds. */
  #earlierMs: number;
  /** Up to when this process's working time is in the budget, by a monotonic clock. */
  #countedTo: number;
  #queue: Promise<unknown> = Promise.resolve();
  /** Commits that were made, and commits that the store has answered. */
  #commits = 0;
  #answers = 0;
  /** After falling back, entries count only from the next checkpoint on. */
  #fellBack: boolean;

  constructor(params: {
    readonly adapters: Adapters;
    readonly run: Run;
    readonly lease: Lease;
    readonly workspace: Workspace | undefined;
    readonly listen: ProgressListener | undefined;
    readonly loaded: LoadedRun;
    readonly workflow: Pick<Workflow, "definition">;
    readonly apply: ApplyEvent;
    readonly driver?: SessionDriver | undefined;
  }) {
    const { adapters, loaded } = params;
    const { newest, state } = loaded;
    this.adapters = adapters;
    this.began = adapters.clock.now();
    this.run = params.run;
    this.toolchain = newest.planes.toolchain;
    this.workspace = params.workspace;
    this.#lease = params.lease;
    this.#listen = params.listen;
    this.#apply = params.apply;
    this.#definition = params.workflow.definition;
    this.#state = state;
    this.#entry = newest.entry;
    this.#top = loaded.top;
    this.#earlierMs = loaded.milliseconds;
    this.#fellBack = loaded.fellBack;
    this.#countedTo = this.#elapsed();
    this.#saved = { entry: newest.entry, at: performance.now() };
    this.#budgetReported = new Set(nearLimit(state.position.budget));
    this.#enterStageAttempt();
    this.#driver = params.driver;
    params.driver?.drive(this);
  }

  get state(): RunState {
    return this.#state;
  }

  /** The current stage attempt. */
  get attempt(): FullAttempt {
    return fullAttempt(this.#state.position.stageAttempt);
  }

  /** The budget with the working time up to now. */
  get budget(): Budget {
    return spendTime(this.#state.position.budget, this.#unsavedMs());
  }

  get position(): Position {
    return { ...this.#state.position, definition: this.#definition, budget: this.budget };
  }

  get conversation(): ConversationPlane | null {
    return this.#talk === undefined ? this.#state.conversation : this.#talk;
  }

  /** Keeps the conversation for the next checkpoint. */
  observeConversation(talk: ConversationPlane): void {
    this.#talk = talk;
  }

  /** Writes one commit. Throws without any change when an entry cannot follow on the state. */
  append(...given: readonly NewEntry[]): Promise<void> {
    const entries = this.#recorded(given);
    const before = this.#state;
    const after = this.#reduced(entries);
    this.#advance(after);
    return this.adapters.store.commit({ lease: this.#lease, entries }).then(this.#confirm, (error: unknown) => {
      this.#refuse(error, { before, after });
    });
  }

  /** Commits files, position and entries together. Saves run one after the other: each needs the sequence before it. */
  save(request: SaveRequest): Promise<CheckpointSummary> {
    const save = (one: SaveRequest): Promise<CheckpointSummary> => this.#save(one);
    const saved = this.#queue.then(() => this.#driver?.save(request, save) ?? save(request));
    this.#queue = saved.catch(() => undefined);
    return saved;
  }

  /** Milliseconds since this process saved or loaded the run; null when nothing has happened since. */
  get unsavedFor(): number | null {
    const isIdle = Object.keys(this.attempt.running).length === 0;
    if (isIdle && this.#entry <= this.#saved.entry) return null;
    return performance.now() - this.#saved.at;
  }

  /** Resolves when the saves that were requested so far have ended. */
  async quiet(): Promise<void> {
    await this.#queue;
  }

  /** The planes of a checkpoint with these files. */
  planesWith(files: FilesPlane | null): Planes {
    return this.#planesOf(this.#state, files, this.#unsavedMs());
  }

  get listening(): boolean {
    return this.#listen !== undefined;
  }

  emit(event: EmittedEvent): void {
    if (this.#listen === undefined) return;
    try {
      this.#listen({ ...event, run: this.run.id, at: this.isoNow() });
    } catch {
      // A defect of a front end does not stop the run.
    }
  }

  isoNow(): string {
    return new Date(this.adapters.clock.now()).toISOString();
  }

  /** Adds the pending recorded calls, so that they are in the same commit as their results. */
  #recorded(entries: readonly NewEntry[]): readonly NewEntry[] {
    const { recorder } = this.adapters;
    return recorder === undefined ? entries : [...recorder.drain(), ...entries];
  }

  async #save(request: SaveRequest): Promise<CheckpointSummary> {
    const { trigger, name } = request;
    const sequence = this.#top + 1;
    const settles = request.settles ?? !onlyReaders(this.#state);
    const files = await this.#snapshot(sequence, name ?? trigger);
    const at: SavedAt = { sequence, files };
    const entries = this.#recorded(request.prepare?.(at) ?? []);
    const before = this.#state;
    const reduced = this.#reduced(entries);
    const milliseconds = this.#unsavedMs();
    const held = this.#planesOf(reduced, files, milliseconds);
    const changed = request.change === undefined ? held : request.change(held, at);
    const settled = markSettled(changed, { sequence, before: reduced.settled, settles });
    const planes = this.toolchain === undefined ? settled : { ...settled, toolchain: this.toolchain };
    const after = takeCheckpoint(reduced, { sequence, planes });
    const [talk, earlierMs, countedTo] = [this.#talk, this.#earlierMs, this.#countedTo];
    this.#countedTo += milliseconds - earlierMs;
    this.#earlierMs = 0;
    this.#talk = undefined;
    this.#advance(after);
    const checkpoint = { sequence, trigger, planes, ...(name === undefined ? {} : { name }) };
    const committed = await this.adapters.store
      .commit({ lease: this.#lease, entries, checkpoint, release: request.release ?? false })
      .catch((error: unknown) => {
        const undo = (): void => {
          [this.#talk, this.#earlierMs, this.#countedTo] = [talk, earlierMs, countedTo];
        };
        return this.#refuse(error, { before, after, undo });
      });
    if (committed.checkpoint === null) throw new TypeError("a commit with a checkpoint returned none");
    this.#top = sequence;
    this.#fellBack = false;
    this.#saved = { entry: committed.entry, at: performance.now() };
    await this.#confirm(committed);
    if (this.listening) this.emit({ kind: "checkpoint", checkpoint: committed.checkpoint });
    return committed.checkpoint;
  }

  async #snapshot(sequence: number, message: string): Promise<FilesPlane | null> {
    if (this.workspace === undefined) return null;
    const { base } = this.#state.inputs;
    return await this.workspace.snapshot({
      run: this.run.id,
      sequence,
      message,
      ...snapshotParams(this.adapters),
      ...(base === null ? {} : { base }),
    });
  }

  #reduced(entries: readonly NewEntry[]): RunState {
    const at = this.isoNow();
    const run = this.run.id;
    // The store numbers entries when it writes them; messages use 0 for an unwritten entry.
    return entries.reduce((state, entry) => reduce(state, { ...entry, run, at, entry: 0 }, this.#apply), this.#state);
  }

  #advance(after: RunState): void {
    const { position } = this.#state;
    this.#state = after;
    this.#commits += 1;
    if (after.position.stageAttempt.number !== position.stageAttempt.number) this.#enterStageAttempt();
    if (after.position.budget !== position.budget) this.#reportBudget();
  }

  #enterStageAttempt(): void {
    const { recorder } = this.adapters;
    if (recorder !== undefined) recorder.stageAttempt = this.attempt.number;
    this.sideTalks.clear();
  }

  /** Reports 80 % once, also when a reservation is released and made again. */
  #reportBudget(): void {
    const { budget } = this;
    for (const resource of nearLimit(budget)) {
      if (this.#budgetReported.has(resource)) continue;
      this.#budgetReported.add(resource);
      this.emit({ kind: "budget", text: `At least 80 % of the budget is used: ${usedText(budget, resource)}` });
    }
  }

  #planesOf(state: RunState, files: FilesPlane | null, milliseconds: number): Planes {
    const conversation = this.#talk === undefined ? state.conversation : this.#talk;
    return planesOf(state, { definition: this.#definition, files, conversation, milliseconds, entry: this.#entry });
  }

  /** Answers may arrive in another order than the commits were made. */
  readonly #confirm = ({ entry }: Committed): void | Promise<void> => {
    if (entry > this.#entry) this.#entry = entry;
    this.#answers += 1;
    if (this.adapters.checksState === true) return this.#checkState();
  };

  /** `undo` is called only if the state is put back: a kept state already has the conversation and the time of its checkpoint. */
  #refuse(
    error: unknown,
    { before, after, undo }: { readonly before: RunState; readonly after: RunState; readonly undo?: () => void },
  ): never {
    this.#answers += 1;
    const isLost = error instanceof HoldfastError && error.code === "LEASE_LOST";
    // Another process has the run. The state is kept, so that the finished work can be saved as an orphaned run.
    if (!isLost && this.#state === after) {
      this.#state = before;
      undo?.();
    } else this.halt.stop(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }

  /** For tests: what the store has written must load as the state in memory. */
  async #checkState(): Promise<void> {
    if (this.#commits !== this.#answers || this.#fellBack) return;
    const [live, commits] = [this.#state, this.#commits];
    const { state: loaded } = await loadRun(this.adapters, this.run.id, this.#apply);
    if (this.#commits !== commits) return;
    const change = firstChange(comparable(loaded), comparable(live));
    if (change === null) return;
    const error = new HoldfastError({
      code: "INTERNAL",
      message: `The state of run ${this.run.id} differs from its stored entries at ${change.field}`,
      data: { ...change },
    });
    this.halt.stop(error);
    throw error;
  }

  /** Time since it was last counted, plus that of earlier processes, in milliseconds. */
  #unsavedMs(): number {
    return this.#earlierMs + Math.max(0, Math.floor(this.#elapsed() - this.#countedTo));
  }

  #elapsed(): number {
    const { clock } = this.adapters;
    return clock.elapsed?.() ?? clock.now();
  }
}

/** The store sets the times of effects, and retention may have dropped the settled checkpoint. */
function comparable({ effects, settled: _settled, ...rest }: RunState): ReturnType<typeof capture> {
  const ledger = Object.entries(effects).map(
    ([
      key,
      {
        state: { at: _at, ...now },
        ...effect
      },
    ]) => [key, { ...effect, now }],
  );
  return capture({ ...rest, ledger: Object.fromEntries(ledger) });
}

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
type EmittedEvent = Without<ProgressEvent, "run" | "at">;

/** Writes a note to the journal and emits it to the listener. */
/** `output`: the last lines of a command that the note is about. */
export async function emitNote(runSession: RunSession, text: string, output?: readonly string[]): Promise<void> {
  const body = output === undefined ? { text } : { text, output };
  await runSession.append({ kind: "note", body });
  runSession.emit({ kind: "note", ...body });
}

export interface LoadedRun extends LoadedState {
  /** The state's position. Its budget includes the working time since the checkpoint. */
  readonly position: Position;
  /** Working time since the checkpoint, from the times of the entries. */
  readonly milliseconds: number;
  readonly newest: Checkpoint;
  /** Sequence of the newest checkpoint, even if that one is not usable. */
  readonly top: number;
}

/** Loads a run: the newest usable checkpoint and the entries after it. Reads only. */
export async function loadRun(
  adapters: Pick<CoreAdapters, "store">,
  run: string,
  apply: ApplyEvent = null,
): Promise<LoadedRun> {
  const { store } = adapters;
  const newest = await store.latest(run);
  if (newest === undefined) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint to resume from`,
      hint: "Start it again under the same id: what is there is kept.",
    });
  }
  return { ...(await loadFrom(store, newest, apply)), newest };
}

/** A run that this process has just created with its first checkpoint: nothing follows it, and there are no effects. */
export function loadCreated(first: Checkpoint, apply: ApplyEvent): LoadedRun {
  const loaded = loadState({ run: first.run, checkpoint: first, entries: [], effects: [], apply });
  return { ...loaded, position: loaded.state.position, milliseconds: 0, newest: first, top: first.sequence };
}

/** Loads a run from a checkpoint that the caller already has. */
export async function loadFrom(
  store: Store,
  newest: Checkpoint,
  apply: ApplyEvent = null,
): Promise<Omit<LoadedRun, "newest">> {
  const [since, effects, settled] = await Promise.all([
    Array.fromAsync(store.readJournal({ run: newest.run, after: newest.entry - 1 })),
    store.listEffects(newest.run),
    settledBefore(store, newest),
  ]);
  const entries = since.filter(({ entry }) => entry > newest.entry);
  const loaded = loadState({
    run: newest.run,
    checkpoint: newest,
    entries,
    effects,
    ...(settled === null ? {} : { settled }),
    apply,
  });
  const { position } = loaded.state;
  const milliseconds = workingTime(since);
  const top = newest.sequence + entries.filter(({ kind }) => kind === "checkpoint").length;
  return { ...loaded, position: { ...position, budget: spendTime(position.budget, milliseconds) }, milliseconds, top };
}

/**
 * Finds the settled files of a checkpoint that was taken during an agent call that must not change files. null: the
 * checkpoint's own files are the settled ones.
 */
async function settledBefore(
  store: Store,
  { run, sequence, entry, planes: taken }: Checkpoint,
): Promise<SettledFiles | null> {
  const { settled } = taken.position.stageAttempt;
  if (settled === undefined || settled.of !== sequence) return null;
  // Retention may have dropped that checkpoint.
  const [found] = await store.listCheckpoints({ run, before: settled.at + 1, limit: 1 });
  if (found?.sequence !== settled.at || found.entry >= entry) return null;
  const { planes } = await store.getCheckpoint({ run, sequence: settled.at });
  return { sequence: settled.at, files: planes.files };
}

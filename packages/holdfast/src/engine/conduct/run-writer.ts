import { nearLimit, spendTime } from "../../core/position/budget.ts";
import type { Resource } from "../../core/position/budget.ts";
import type {
  Checkpoint,
  CheckpointSummary,
  ConversationPlane,
  FilesPlane,
  Planes,
} from "../../core/checkpoint/checkpoint.ts";
import type { Effect } from "../../core/effect/effect.ts";
import type { CallErrors } from "../../core/error-policy/call-errors.ts";
import { HoldfastError } from "../../core/error.ts";
import { GraphSchedule } from "../../core/graph/graph-schedule.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Budget, Position } from "../../core/position/position.ts";
import type { Run } from "../../core/run/run.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import { isUnsavedChange } from "../../core/journal/unsaved-change.ts";
import { KeptMap } from "../../core/values/index.ts";
import type { RunningStep, Visit } from "../../core/position/visit.ts";
import type { Committed } from "../../ports/store.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { Halt } from "../halt.ts";
import { lookParams } from "../parts.ts";
import type { ProgressEvent, ProgressListener } from "../progress-event.ts";
import type { Player } from "../replay/player.ts";
import { onlyGuests, settledBy, unsettledIn } from "../restore/settled-files.ts";
import type { SettledFiles } from "../restore/settled-files.ts";
import type { WorkParts } from "../work-parts.ts";

export interface SaveRequest {
  readonly trigger: Trigger;
  readonly name?: string;
  /**
   * Called when the files are safe and nothing but the commit is left: changes what is in memory, and returns the
   * entries that say so. Memory and disk change together.
   */
  readonly prepare?: (at: { readonly sequence: number; readonly files: FilesPlane | null }) => readonly NewEntry[];
  /** The files are what they should be, whoever is at work. Default: unless only calls are that are to change nothing here. */
  readonly settles?: boolean;
}

/**
 * One run in the hands of the process that holds its lease: the position in memory, and the only way from there to the
 * store. What is in memory is what the next checkpoint holds, so it changes in the same turn as the commit is called.
 */
export class RunWriter {
  readonly parts: WorkParts;
  readonly run: Run;
  readonly workspace: Workspace | undefined;
  halt = new Halt();
  readonly ledger: Map<string, Effect>;
  /** Of the visit; its fields in `position` are those of the last transition. */
  steps = new KeptMap();
  failures = new Map<string, number>();
  running = new Map<string, RunningStep>();
  /** null: the next try begins a fresh one. */
  sessions = new Map<string, string | null>();
  /** Calls not finished yet that work aside, and the aside of each. */
  asides = new Map<string, string>();
  /** What failed tries of agent calls not finished yet have come to. */
  errors = new Map<string, CallErrors>();
  /** What is said in them, by step: not in the conversation that checkpoints hold, which is one. */
  readonly beside = new Map<string, ConversationPlane>();
  /** Calls that died with the process before, and what their session's record had when they began. */
  readonly uncounted = new Map<string, RunningStep>();
  /** Of these, calls whose result was kept before the process died: their files stay as they are. */
  readonly answered = new Set<string>();
  /** By key: when this process last tried an effect. */
  readonly acted = new Map<string, number>();
  /** When this process took the run up; those before it were gone by then. */
  readonly began: number;
  /** Resources of which it was told that 80 % are used. */
  readonly budgetTold = new Set<Resource>();
  /** How many steps that change the run's files have begun. */
  fileSteps = 0;
  /** So often, files are being put in place by us: what lies there now is half of each, and no checkpoint that anybody asked for. */
  placing = 0;
  /** Bring into memory what only the agents that work now can tell, before a checkpoint that no step of theirs takes. */
  readonly beforeSave = new Set<() => Promise<void>>();
  /** Values of the workflow. */
  values: JsonObject;
  /** What the run works on; a stage may find out more. */
  inputs: Planes["inputs"];
  conversation: ConversationPlane | null;
  /** Of the newest checkpoint that can be gone back to. */
  sequence: number;
  files: FilesPlane | null;
  /** The newest that is one; `files` may hold more. */
  settled: SettledFiles;
  /** Of the position; null: it has none. */
  schedule: GraphSchedule | null = null;
  /** This visit set it; else it is what an earlier one left. */
  graphSet = false;
  #position: Position;
  readonly #base: Planes;
  readonly #lease: Lease;
  readonly #listen: ProgressListener | undefined;
  #entry: number;
  #top: number;
  #saved: { readonly entry: number; readonly at: number };
  /** Up to when this process's working time is in the budget, by the clock that nobody can set. */
  #countedTo: number;
  #queue: Promise<unknown> = Promise.resolve();
  /** Has something come about that only a checkpoint could bring back, in whatever process? */
  #changed: boolean;

  constructor(params: {
    readonly parts: WorkParts;
    readonly run: Run;
    readonly lease: Lease;
    readonly workspace: Workspace | undefined;
    readonly listen: ProgressListener | undefined;
    readonly newest: Pick<Checkpoint, "sequence" | "entry" | "planes">;
    /** Of the newest checkpoint, one that cannot be used included. */
    readonly top: number;
    readonly position: Position;
    /** The workflow's values as they are now, with all that was recorded since the checkpoint. */
    readonly values: JsonObject;
    readonly effects: readonly Effect[];
    /** Did the journal since the checkpoint tell of something that no checkpoint holds? */
    readonly changed: boolean;
    readonly settled?: SettledFiles;
  }) {
    const { newest } = params;
    this.parts = params.parts;
    this.began = params.parts.clock.now();
    this.run = params.run;
    this.workspace = params.workspace;
    this.#lease = params.lease;
    this.#listen = params.listen;
    this.#base = newest.planes;
    this.#entry = newest.entry;
    this.sequence = newest.sequence;
    this.#top = params.top;
    this.files = newest.planes.files;
    this.settled = params.settled ?? { sequence: newest.sequence, files: newest.planes.files };
    this.values = params.values;
    this.inputs = newest.planes.inputs;
    this.conversation = newest.planes.conversation;
    this.ledger = new Map(params.effects.map((effect) => [effect.key, effect]));
    this.#position = params.position;
    this.#unpack(params.position);
    this.#countedTo = this.#elapsed();
    this.#changed = params.changed || params.values !== newest.planes.context.values;
    this.#saved = { entry: newest.entry, at: performance.now() };
    params.parts.player?.attach(this);
    for (const resource of nearLimit(params.position.budget)) this.budgetTold.add(resource);
  }

  get config(): Planes["config"] {
    return this.#base.config;
  }

  get visit(): number {
    return this.#position.visit.number;
  }

  get iteration(): number {
    return this.#position.iteration;
  }

  get budget(): Budget {
    return this.#position.budget;
  }

  set budget(budget: Budget) {
    this.#position = { ...this.#position, budget };
  }

  /** From now on agents may act without asking. */
  allowAll(): void {
    this.#position = { ...this.#position, yolo: true };
  }

  /** Before the budget is judged or saved. What passes between a commit and a kill is told by the journal's own times. */
  countTime(): void {
    const passed = Math.floor(this.#elapsed() - this.#countedTo);
    if (passed <= 0) return;
    this.#countedTo += passed;
    this.budget = spendTime(this.budget, passed);
  }

  /** An agent has been called since the run went back. */
  settleRewound(): void {
    if (this.conversation?.rewound === undefined) return;
    const { rewound: _over, ...conversation } = this.conversation;
    this.conversation = conversation;
  }

  get extensions(): JsonObject {
    return this.#base.extensions;
  }

  get position(): Position {
    const visit: Visit = {
      number: this.#position.visit.number,
      steps: this.steps.object(),
      failures: Object.fromEntries(this.failures),
      ...(this.running.size === 0 ? {} : { running: Object.fromEntries(this.running) }),
      ...(this.sessions.size === 0 ? {} : { sessions: Object.fromEntries(this.sessions) }),
      ...(this.graphSet ? { graph: true } : {}),
      ...(this.asides.size === 0 ? {} : { asides: Object.fromEntries(this.asides) }),
      ...(this.errors.size === 0 ? {} : { errors: Object.fromEntries(this.errors) }),
    };
    return { ...this.#position, graph: this.schedule?.graph() ?? this.#position.graph, visit };
  }

  set position(position: Position) {
    this.#position = position;
    this.#unpack(position);
  }

  /** One entry, one commit: all that a plain step costs. So no promise more than the store's own and the answer. */
  append(...given: readonly NewEntry[]): Promise<void> {
    if (given.some(isUnsavedChange)) this.#changed = true;
    const entries = this.#taped(given);
    return this.parts.store.commit({ lease: this.#lease, entries }).then(this.#note, this.#refused);
  }

  /** Files, position and entries as one act. One after the other: each needs the sequence before it. */
  save(request: SaveRequest): Promise<CheckpointSummary> {
    const { player } = this.parts;
    const save = player === undefined ? () => this.#save(request) : () => this.#play(player, request);
    const saved = this.#queue.then(save);
    this.#queue = saved.catch(() => undefined);
    return saved;
  }

  /** Since the newest checkpoint, the files apart. */
  get changed(): boolean {
    return this.#changed;
  }

  /** Milliseconds since this process saved (or took the run up); null when nothing has happened since. */
  get unsavedFor(): number | null {
    if (this.running.size === 0 && this.#entry <= this.#saved.entry) return null;
    return performance.now() - this.#saved.at;
  }

  /** Settles when the saves that were asked for by now are over. */
  async quiet(): Promise<void> {
    await this.#queue;
  }

  /** What is in memory, as a checkpoint would hold it. */
  planesWith(files: FilesPlane | null): Planes {
    return this.#planes(files);
  }

  get listening(): boolean {
    return this.#listen !== undefined;
  }

  tell(news: News): void {
    if (this.#listen === undefined) return;
    try {
      this.#listen({ ...news, run: this.run.id, at: this.isoNow() });
    } catch {
      // A front end's defect is not the run's.
    }
  }

  isoNow(): string {
    return new Date(this.parts.clock.now()).toISOString();
  }

  /** What was recorded between is put in first, so that every checkpoint has the number that it had. */
  async #play(player: Player, request: SaveRequest): Promise<CheckpointSummary> {
    for (let other = await player.before(this, request); other !== null; other = await player.before(this, request))
      await this.#save(other);
    const saved = await this.#save(request);
    await player.saved(this, saved);
    return saved;
  }

  /** With what the tape holds: in the same commit as that which came of it. */
  #taped(entries: readonly NewEntry[]): readonly NewEntry[] {
    const { tape } = this.parts;
    return tape === undefined ? entries : [...tape.drain(), ...entries];
  }

  async #save(request: SaveRequest): Promise<CheckpointSummary> {
    const { trigger, name } = request;
    const sequence = this.#top + 1;
    const settles = request.settles ?? !onlyGuests(this.running);
    const files = await this.#snapshot(sequence, name ?? trigger);
    this.countTime();
    const entries = this.#taped(request.prepare?.({ sequence, files }) ?? []);
    const settled = settledBy(this.settled, { sequence, files, settles });
    this.#changed = false;
    const planes = unsettledIn(this.#planes(files), { of: sequence, at: settled.sequence });
    const checkpoint = { sequence, trigger, planes, ...(name === undefined ? {} : { name }) };
    const committed = await this.parts.store.commit({ lease: this.#lease, entries, checkpoint }).catch(this.#refused);
    if (committed.checkpoint === null) throw new TypeError("a commit with a checkpoint returned none");
    this.sequence = sequence;
    this.#top = sequence;
    this.files = files;
    this.settled = settled;
    this.#note(committed);
    this.#saved = { entry: committed.entry, at: performance.now() };
    if (this.listening) this.tell({ kind: "checkpoint", checkpoint: committed.checkpoint });
    return committed.checkpoint;
  }

  async #snapshot(sequence: number, message: string): Promise<FilesPlane | null> {
    if (this.workspace === undefined) return null;
    const { base } = this.inputs;
    // What is replayed is looked at and kept nowhere.
    if (this.parts.player !== undefined) return { ...(await this.parts.player.look(this.workspace)), base };
    return await this.workspace.snapshot({
      run: this.run.id,
      sequence,
      message,
      ...lookParams(this.parts),
      ...(base === null ? {} : { base }),
    });
  }

  #planes(files: FilesPlane | null): Planes {
    const pending = [...this.ledger.values()].filter(
      ({ state }) => state.kind === "intended" || state.kind === "unknown",
    );
    return {
      ...this.#base,
      position: this.position,
      context: { ...this.#base.context, values: this.values },
      files,
      inputs: this.inputs,
      conversation: this.conversation,
      effects: { entry: this.#entry, pending: pending.map(({ key }) => key) },
    };
  }

  /** A stale epoch means that somebody else carries the run: everything here stops, and nothing more is written. */
  readonly #refused = (error: unknown): never => {
    if (error instanceof HoldfastError && error.code === "LEASE_LOST") this.halt.stop(error);
    throw error;
  };

  /** Answers may come in another order than commits. */
  readonly #note = ({ entry }: Committed): void => {
    if (entry > this.#entry) this.#entry = entry;
  };

  #elapsed(): number {
    const { clock } = this.parts;
    return clock.elapsed?.() ?? clock.now();
  }

  #unpack({ visit, graph }: Position): void {
    const { tape } = this.parts;
    if (tape !== undefined) tape.visit = visit.number;
    this.graphSet = visit.graph ?? false;
    // What an earlier visit left is not moved any more.
    this.schedule = this.graphSet && graph !== null ? new GraphSchedule(graph) : null;
    this.steps = new KeptMap(Object.entries(visit.steps));
    this.failures = new Map(Object.entries(visit.failures));
    this.running = new Map(Object.entries(visit.running ?? {}));
    this.sessions = new Map(Object.entries(visit.sessions ?? {}));
    this.asides = new Map(Object.entries(visit.asides ?? {}));
    this.errors = new Map(Object.entries(visit.errors ?? {}));
    this.beside.clear();
  }
}

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
export type News = Without<ProgressEvent, "run" | "at">;

import type { Amounts } from "../../core/position.ts";
import type { Checkpoint, CheckpointSummary, FilesPlane } from "../../core/checkpoint.ts";
import type { Json } from "../../core/json.ts";
import { compareAsked } from "../../core/replay/compare-asked.ts";
import { comparePlanes } from "../../core/replay/compare-planes.ts";
import type { Divergence } from "../../core/replay/divergence.ts";
import { firstChange } from "../../core/replay/first-change.ts";
import type { AskedAgent, RecordedLookup } from "../../core/replay/recorded-call.ts";
import { callKey, lastTakenUp } from "../../core/replay/recording.ts";
import type { Recording, RecordedCheckpoint, RecordedStep } from "../../core/replay/recording.ts";
import { canonicalJson } from "../../core/values/index.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { RunWriter, SaveRequest } from "../run-writer.ts";
import { PlayEnd } from "./played.ts";

export interface PlayerParams {
  readonly recording: Recording;
  readonly load: (sequence: number) => Promise<Checkpoint>;
  /** Makes the scratch worktree hold these files, on this head. null: it does; else what lies there that no step has left. */
  readonly place: (files: FilesPlane) => Promise<ForeignFiles | null>;
  /** What it holds. */
  readonly look: (workspace: Workspace) => Promise<FilesPlane>;
  /** Sequences at which the run went on from somewhere else than where it stood. */
  readonly jumps: ReadonlySet<number>;
  /** Last checkpoint to be made; null: as far as the record goes. */
  readonly to: number | null;
  readonly mask: (text: string) => string;
  /** How long a step may wait for the one that was recorded before it. */
  readonly patienceMs: number;
}

export interface ForeignFiles {
  readonly expected: string;
  readonly actual: string;
}

/** Why a replay stopped without having parted from its record. */
export type PlayStop =
  | { readonly kind: "end" }
  /** Somebody went back, raised a limit, took the world's changes over: it goes on from this checkpoint. */
  | { readonly kind: "jump"; readonly sequence: number };

/**
 * The record of a run, in the hands of an engine that works it through again. Steps are answered in the order in which they ended then, every checkpoint is
 * compared with its original as it is made, and the first thing that is not the same ends it.
 */
export class Player {
  readonly mask: (text: string) => string;
  divergence: Divergence | null = null;
  stop: PlayStop | null = null;
  /** What the run takes for the time. */
  time = 0;
  compared = 0;
  /** Checkpoints that the workflow did not take itself: put in as they were. */
  filled = 0;
  steps = 0;
  agents = 0;
  /** Newest checkpoint that was found the same. */
  lastSame: number | null = null;
  readonly #params: PlayerParams;
  readonly #begun = new Set<number>();
  readonly #done = new Set<number>();
  readonly #answered = new Set<number>();
  #writer: RunWriter | undefined;
  /** Of the next checkpoint of the record. */
  #cursor = 0;
  #comparedEntry = 0;
  /** Of the checkpoint that it began from, or last jumped to. */
  #from = 0;
  /** Of the next reading of the clock. */
  #read = 0;
  #lastPlayed = 0;
  /** A checkpoint of somebody else's was put in, with the files that it had. */
  #isFilled = false;
  #wake: (() => void)[] = [];

  constructor(params: PlayerParams) {
    this.#params = params;
    this.mask = params.mask;
  }

  attach(writer: RunWriter): void {
    this.#writer = writer;
  }

  /** The run stands at this checkpoint, in the scratch store too: what came after it is to be played. */
  begin(at: RecordedCheckpoint): void {
    this.stop = null;
    this.time = Math.max(this.time, Date.parse(at.at));
    this.#cursor = this.#params.recording.checkpoints.findIndex(({ sequence }) => sequence === at.sequence) + 1;
    this.#comparedEntry = at.entry;
    this.#from = at.entry;
    this.#read = this.#params.recording.readings.findIndex(({ entry }) => entry > at.entry);
    if (this.#read === -1) this.#read = this.#params.recording.readings.length;
    this.#lastPlayed = at.entry;
    for (const set of [this.#begun, this.#done]) for (const entry of set) if (entry > at.entry) set.delete(entry);
  }

  /** Grows with everything that is played. */
  get progress(): number {
    return this.#done.size + this.#cursor;
  }

  /** The next place at which the run went on from somewhere else. */
  nextJump(): RecordedCheckpoint | null {
    const { recording, jumps } = this.#params;
    return recording.checkpoints.slice(this.#cursor).find(({ sequence }) => jumps.has(sequence)) ?? null;
  }

  /** What the workflow saved then and has not come to now. */
  firstLeft(): RecordedCheckpoint | null {
    return this.#params.recording.checkpoints.slice(this.#cursor).find(({ isOwn }) => isOwn) ?? null;
  }

  /** The next thing on record, in time. */
  passTime(): void {
    const { steps, checkpoints } = this.#params.recording;
    const next = steps.find(({ entry }) => !this.#done.has(entry))?.at ?? checkpoints[this.#cursor]?.at;
    if (next !== undefined) this.time = Math.max(this.time, Date.parse(next));
  }

  has(writer: RunWriter, name: string): boolean {
    return this.#left(writer).some(({ step }) => step === name);
  }

  asked(writer: RunWriter, step: string, asked: AskedAgent): void {
    this.#checkJump(writer);
    const own = this.#left(writer).find((one) => one.step === step);
    const recorded = own?.call ?? this.#params.recording.agents.get(callKey(writer.visit, step));
    // The step itself is not on record either: that is told when it is asked for.
    if (recorded === undefined && own === undefined) return;
    const change = recorded === undefined ? NO_RECORD : compareAsked(recorded.asked, asked);
    if (change !== null && !this.#isBegunAnew(writer, recorded?.entry ?? 0))
      this.#diverge(writer, { ...change, what: "call", step, entry: recorded?.entry ?? null });
    this.agents += 1;
  }

  /** The step of this name when its turn has come. */
  async next(writer: RunWriter, name: string): Promise<RecordedStep> {
    for (;;) {
      writer.halt.check();
      this.#checkJump(writer);
      const left = this.#left(writer);
      const own = left.find(({ step, entry }) => step === name && !this.#begun.has(entry));
      if (own !== undefined && own === left[0]) {
        this.#begun.add(own.entry);
        this.time = Math.max(this.time, Date.parse(own.at));
        return own;
      }
      const [first] = left;
      if (first === undefined) return this.#unrecorded(writer, name);
      if (await this.#moves(writer)) continue;
      const about = { what: "step", field: "name", actual: name, expected: first.step } as const;
      return this.#diverge(writer, { ...about, step: name, entry: first.entry });
    }
  }

  played({ entry }: RecordedStep): void {
    this.#done.add(entry);
    this.#lastPlayed = Math.max(this.#lastPlayed, entry);
    this.steps += 1;
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** What tries took before the run stood where it was put is in the budget that it was put there with. */
  spentOn({ spent }: RecordedStep): readonly Amounts[] {
    return spent.filter(({ entry }) => entry > this.#from).map(({ amounts }) => amounts);
  }

  /** An event that the workflow makes itself, in its turn. */
  async recorded(writer: RunWriter, name: string, event: Json): Promise<Json> {
    const step = await this.next(writer, name);
    this.played(step);
    const expected = step.came.kind === "finished" ? step.came.result : null;
    const change = firstChange(expected, event);
    if (change !== null && !this.#isBegunAnew(writer, step.entry))
      this.#diverge(writer, { ...change, what: "event", step: name, entry: step.entry });
    return expected;
  }

  /** The clock as the stage read it then: of readings by the process that ended the visit, the next one that no step has swallowed. */
  now(): number {
    const { recording } = this.#params;
    const visit = this.#writer?.visit ?? 0;
    const from = lastTakenUp(recording, visit);
    const at = recording.readings.findIndex(
      (one, index) => one.visit === visit && one.entry > from && index >= this.#read && !this.#isSwallowed(one.entry),
    );
    if (at === -1) return this.time;
    this.#read = at + 1;
    return recording.readings[at]?.value ?? this.time;
  }

  /** In the commit of a step that was played: its own work read it. */
  #isSwallowed(entry: number): boolean {
    return entry < this.#lastPlayed;
  }

  /** The stage was run again after that, by another process: what it then worked out beside its steps may be another thing. */
  #isBegunAnew(writer: RunWriter, entry: number): boolean {
    return lastTakenUp(this.#params.recording, writer.visit) > entry;
  }

  async titleOf(sequence: number): Promise<Pick<Checkpoint, "trigger" | "name">> {
    const { trigger, name } = await this.#params.load(sequence);
    return { trigger, name };
  }

  async #placeFilesOf(sequence: number): Promise<void> {
    const { planes } = await this.#params.load(sequence);
    const foreign = planes.files === null ? null : await this.#params.place(planes.files);
    if (foreign !== null && this.#writer !== undefined)
      this.#diverge(this.#writer, { what: "files", field: "tree", ...foreign, checkpoint: sequence });
  }

  look(workspace: Workspace): Promise<FilesPlane> {
    return this.#params.look(workspace);
  }

  /** Was this checkpoint taken at this very point? Whether one is needed hung on switches, and on what else was under way. */
  isNext(writer: RunWriter, { trigger, name }: { readonly trigger: string; readonly name: string }): boolean {
    const { checkpoints, steps } = this.#params.recording;
    const next = checkpoints[this.#cursor];
    if (next === undefined || next.trigger !== trigger || next.name !== name) return false;
    return steps.every(({ visit, entry }) => visit !== writer.visit || this.#done.has(entry) === entry < next.entry);
  }

  /** What is to be saved before the request, because it was; null: the request itself is next. */
  async before(writer: RunWriter, request: SaveRequest): Promise<SaveRequest | null> {
    writer.halt.check();
    const next = this.#params.recording.checkpoints[this.#cursor];
    const { to, jumps } = this.#params;
    if (next === undefined || (to !== null && next.sequence > to)) return this.#end(writer, { kind: "end" });
    if (jumps.has(next.sequence)) return this.#end(writer, { kind: "jump", sequence: next.sequence });
    const isAsked = next.trigger === request.trigger && next.name === (request.name ?? null);
    const at = { checkpoint: next.sequence, entry: next.entry };
    if (isAsked) {
      this.#allAsked(writer, next);
      await this.#adopt(writer, next);
      // What a step left, and only once everything that lay there before it has been put in.
      const isOfStep = this.#params.recording.steps.some(({ checkpoint }) => checkpoint === next.sequence);
      if (isOfStep || this.#isFilled) await this.#placeFilesOf(next.sequence);
      this.#isFilled = false;
      return null;
    }
    if (next.isOwn) {
      this.#allAsked(writer, next);
      const [expected, actual] = [headingOf(next), headingOf({ ...request, name: request.name ?? null })];
      return this.#diverge(writer, { ...at, what: "checkpoint", field: "trigger", expected, actual });
    }
    return await this.#fill(writer, next);
  }

  async saved(writer: RunWriter, saved: CheckpointSummary): Promise<void> {
    const next = this.#params.recording.checkpoints[this.#cursor];
    if (next === undefined) return;
    const at = { checkpoint: next.sequence, entry: next.entry, what: "checkpoint" } as const;
    if (saved.sequence !== next.sequence)
      this.#diverge(writer, { ...at, field: "sequence", expected: next.sequence, actual: saved.sequence });
    const { planes } = await this.#params.load(next.sequence);
    const change = comparePlanes(planes, writer.planesWith(writer.files));
    if (change !== null) this.#diverge(writer, { ...at, ...change });
    this.compared += 1;
    this.lastSame = next.sequence;
    this.#cursor += 1;
    this.#comparedEntry = next.entry;
    if (this.#params.to === next.sequence) this.#end(writer, { kind: "end" });
  }

  /** What the forge said then. */
  lookUp(method: string, args: readonly Json[]): RecordedLookup["answer"] {
    const writer = this.#writer;
    if (writer === undefined) throw new TypeError("nothing is replayed here");
    const { lookups } = this.#params.recording;
    const text = canonicalJson(args);
    const found = lookups.find(
      (one) =>
        one.visit === writer.visit &&
        one.method === method &&
        !this.#answered.has(one.entry) &&
        canonicalJson(one.args) === text,
    );
    if (found !== undefined) {
      this.#answered.add(found.entry);
      return found.answer;
    }
    if (!this.#params.recording.ended.has(writer.visit)) return this.#end(writer, { kind: "end" });
    return this.#diverge(writer, { what: "lookup", field: method, expected: null, actual: args });
  }

  /** Of this visit, not played yet. */
  #left(writer: RunWriter): readonly RecordedStep[] {
    return this.#params.recording.steps.filter(({ visit, entry }) => visit === writer.visit && !this.#done.has(entry));
  }

  #unrecorded(writer: RunWriter, name: string): never {
    if (!this.#params.recording.ended.has(writer.visit)) return this.#endOrJump(writer);
    return this.#diverge(writer, { what: "step", field: "name", expected: null, actual: name, step: name });
  }

  /** A stage that concludes without a step that it did then. */
  #allAsked(writer: RunWriter, next: RecordedCheckpoint): void {
    const missing = this.#left(writer).find(({ entry }) => entry < next.entry && !this.#begun.has(entry));
    if (missing === undefined) return;
    const { step, entry } = missing;
    this.#diverge(writer, { what: "missing", field: "name", expected: step, actual: null, step, entry });
  }

  /** Readings of clocks and what agents themselves keep of a talk come from the record: nobody can work them out. */
  async #adopt(writer: RunWriter, next: RecordedCheckpoint): Promise<void> {
    const { planes } = await this.#params.load(next.sequence);
    writer.conversation = planes.conversation;
    const { budget } = planes.position;
    const { milliseconds } = budget.spent;
    const isTakenUp = this.#params.recording.takenUp.some((entry) => entry > this.#comparedEntry && entry < next.entry);
    // What a process that died had spent, only the agent's own record told.
    writer.budget = isTakenUp ? budget : { ...writer.budget, spent: { ...writer.budget.spent, milliseconds } };
    this.time = Math.max(this.time, Date.parse(next.at));
  }

  async #fill(writer: RunWriter, next: RecordedCheckpoint): Promise<SaveRequest> {
    const { planes } = await this.#params.load(next.sequence);
    const isMidway = planes.position.visit.running !== undefined;
    const here = writer.planesWith(planes.files);
    const same = {
      ...here,
      conversation: planes.conversation,
      position: { ...here.position, budget: planes.position.budget },
    };
    if (!isMidway && comparePlanes(planes, same) !== null)
      return this.#end(writer, { kind: "jump", sequence: next.sequence });
    await this.#placeFilesOf(next.sequence);
    this.#isFilled = true;
    this.filled += 1;
    this.#cursor += 1;
    const { trigger } = await this.#params.load(next.sequence);
    return { trigger, ...(next.name === null ? {} : { name: next.name }) };
  }

  /** What is left of this visit was done only after the run had gone on from somewhere else, or with other options. */
  #checkJump(writer: RunWriter): void {
    const [first] = this.#left(writer);
    const jump = this.nextJump();
    if (first !== undefined && jump !== null && first.entry > jump.entry)
      this.#end(writer, { kind: "jump", sequence: jump.sequence });
  }

  /** false: nobody plays anything any more. */
  async #moves(writer: RunWriter): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, this.#params.patienceMs, false);
    this.#wake.push(() => resolve(true));
    const moved = await Promise.race([promise, writer.halt.halted.then(() => true)]);
    clearTimeout(timer);
    return moved;
  }

  #endOrJump(writer: RunWriter): never {
    const next = this.nextJump();
    return this.#end(writer, next === null ? { kind: "end" } : { kind: "jump", sequence: next.sequence });
  }

  #end(writer: RunWriter, stop: PlayStop): never {
    this.stop ??= stop;
    const end = new PlayEnd("the record ends here");
    writer.halt.stop(end);
    throw end;
  }

  #diverge(
    writer: RunWriter,
    found: Pick<Divergence, "what" | "field" | "expected" | "actual"> & {
      readonly step?: string;
      readonly entry?: number | null;
      readonly checkpoint?: number;
    },
  ): never {
    const { stage, iteration, visit } = writer.position;
    const { what, field, expected, actual, step = null, entry = null, checkpoint = null } = found;
    const where = { stage, iteration, visit: visit.number, step, checkpoint, entry };
    this.divergence ??= { where, what, field, expected, actual };
    const end = new PlayEnd("it parts from its record here");
    writer.halt.stop(end);
    throw end;
  }
}

const NO_RECORD = { field: "record", expected: null, actual: "none of this call" } as const;

function headingOf({ trigger, name }: { readonly trigger: string; readonly name: string | null }): string {
  return name === null ? trigger : `${trigger} (${name})`;
}

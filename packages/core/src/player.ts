import { ERROR_CODES, HoldfastError } from "@holdfast/platform/error";
import type { Checkpoint, CheckpointSummary, FilesPlane, Planes } from "./checkpoint.ts";
import type { Json } from "./json.ts";
import type { Amounts } from "./position.ts";
import type { AskedAgent, RecordedLookup } from "./recorded-calls.ts";
import {
  type Divergence,
  type RecordedCheckpoint,
  type RecordedStep,
  type Recording,
  callKey,
  compareAsked,
  comparePlanes,
  firstChange,
  lastResumed,
} from "./recording.ts";
import type { RunSession, SaveRequest, SavedAt } from "./run-session.ts";
import { canonicalJson } from "./values/canonical-json.ts";
import type { Workspace } from "./workspace.ts";

interface PlayerParams extends CheckpointLineParams {
  /** What the scratch worktree holds. */
  readonly look: (workspace: Workspace) => Promise<FilesPlane>;
  readonly mask: (text: string) => string;
  /** How long a step may wait for the one that was recorded before it. */
  readonly patienceMs: number;
}

/**
 * The record of a run, in the hands of an engine that works it through again. Steps are answered in the order in which they ended then, every checkpoint is
 * compared with its original as it is made, and the first thing that is not the same ends it.
 */
export class Player {
  readonly mask: (text: string) => string;
  /** What the run takes for the time. */
  time = 0;
  agents = 0;
  readonly #params: PlayerParams;
  readonly #recording: Recording;
  readonly #ending = new Ending();
  readonly #steps: StepLine;
  readonly #checkpoints: CheckpointLine;
  readonly #answers: RecordedAnswers;
  #writer: RunSession | undefined;
  /** Of the checkpoint that it began from, or last jumped to. */
  #from = 0;

  constructor(params: PlayerParams) {
    this.#params = params;
    this.mask = params.mask;
    this.#recording = params.recording;
    this.#steps = new StepLine(params.recording);
    this.#checkpoints = new CheckpointLine(params, { steps: this.#steps, ending: this.#ending });
    this.#answers = new RecordedAnswers(params.recording);
  }

  get divergence(): Divergence | null {
    return this.#ending.divergence;
  }

  get stop(): PlayStop | null {
    return this.#ending.stop;
  }

  get steps(): number {
    return this.#steps.count;
  }

  get compared(): number {
    return this.#checkpoints.compared;
  }

  /** Checkpoints that the workflow did not take itself: put in as they were. */
  get filled(): number {
    return this.#checkpoints.filled;
  }

  /** Newest checkpoint that was found the same. */
  get lastSame(): number | null {
    return this.#checkpoints.lastSame;
  }

  attach(writer: RunSession): void {
    this.#writer = writer;
  }

  /** The run stands at this checkpoint, in the scratch store too: what came after it is to be played. */
  begin(at: RecordedCheckpoint): void {
    this.#ending.stop = null;
    this.#pass(at.at);
    this.#from = at.entry;
    this.#steps.begin(at.entry);
    this.#checkpoints.begin(at);
    this.#answers.begin(at.entry);
  }

  /** Grows with everything that is played. */
  get progress(): number {
    return this.#steps.done + this.#checkpoints.passed;
  }

  /** The next place at which the run went on from somewhere else. */
  nextJump(): RecordedCheckpoint | null {
    return this.#checkpoints.nextJump();
  }

  /** What the workflow saved then and has not come to now. */
  firstLeft(): RecordedCheckpoint | null {
    return this.#checkpoints.firstLeft();
  }

  /** The next thing on record, in time. */
  passTime(): void {
    const next = this.#steps.next()?.at ?? this.#checkpoints.next?.at;
    if (next !== undefined) this.#pass(next);
  }

  has(writer: RunSession, name: string): boolean {
    return this.#steps.left(writer.visit).some(({ step }) => step === name);
  }

  asked(writer: RunSession, step: string, asked: AskedAgent): void {
    this.#checkJump(writer);
    const own = this.#steps.left(writer.visit).find((one) => one.step === step);
    const recorded = own?.call ?? this.#recording.agents.get(callKey(writer.visit, step));
    // The step itself is not on record either: that is told when it is asked for.
    if (recorded === undefined && own === undefined) return;
    const change = recorded === undefined ? NO_RECORD : compareAsked(recorded.asked, asked);
    if (change !== null && !this.#isBegunAnew(writer, recorded?.entry ?? 0))
      this.#ending.diverge(writer, { ...change, what: "call", step, entry: recorded?.entry ?? null });
    this.agents += 1;
  }

  /** The step of this name when its turn has come. */
  async next(writer: RunSession, name: string): Promise<RecordedStep> {
    for (;;) {
      writer.halt.check();
      this.#checkJump(writer);
      const own = this.#steps.take(writer.visit, name);
      if (own !== null) {
        this.#pass(own.at);
        return own;
      }
      const [first] = this.#steps.left(writer.visit);
      if (first === undefined) return this.#unrecorded(writer, name);
      if (await this.#steps.moves(writer, this.#params.patienceMs)) continue;
      const about = { what: "step", field: "name", actual: name, expected: first.step } as const;
      return this.#ending.diverge(writer, { ...about, step: name, entry: first.entry });
    }
  }

  played(step: RecordedStep): void {
    this.#steps.played(step);
  }

  /** What tries took before the run stood where it was put is in the budget that it was put there with. */
  spentOn({ spent }: RecordedStep): readonly Amounts[] {
    return spent.filter(({ entry }) => entry > this.#from).map(({ amounts }) => amounts);
  }

  /** An event that the workflow makes itself, in its turn. */
  async recorded(writer: RunSession, name: string, event: Json): Promise<Json> {
    const step = await this.next(writer, name);
    this.played(step);
    const expected = step.came.kind === "finished" ? step.came.result : null;
    const change = firstChange(expected, event);
    if (change !== null && !this.#isBegunAnew(writer, step.entry))
      this.#ending.diverge(writer, { ...change, what: "event", step: name, entry: step.entry });
    return expected;
  }

  /** The clock as the stage read it then. */
  now(): number {
    return this.#answers.now(this.#askedAt(this.#writer?.visit ?? 0)) ?? this.time;
  }

  async titleOf(sequence: number): Promise<Pick<Checkpoint, "trigger" | "name">> {
    const { trigger, name } = await this.#params.load(sequence);
    return { trigger, name };
  }

  look(workspace: Workspace): Promise<FilesPlane> {
    return this.#params.look(workspace);
  }

  /** Was this checkpoint taken at this very point? Whether one is needed hung on switches, and on what else was under way. */
  isNext(writer: RunSession, request: { readonly trigger: string; readonly name: string }): boolean {
    return this.#checkpoints.isNext(writer, request);
  }

  /** What is saved next: the request, or a recorded checkpoint that came between. */
  before(writer: RunSession, request: SaveRequest): Promise<NextSave> {
    return this.#checkpoints.before(writer, request, (at) => this.#pass(at));
  }

  saved(writer: RunSession, saved: CheckpointSummary): Promise<void> {
    return this.#checkpoints.saved(writer, saved);
  }

  /** What the forge said then. */
  lookUp(method: string, args: readonly Json[]): RecordedLookup["answer"] {
    const writer = this.#writer;
    if (writer === undefined) throw new TypeError("nothing is replayed here");
    const answer = this.#answers.lookUp(method, args, this.#askedAt(writer.visit));
    if (answer !== null) return answer;
    if (!this.#recording.ended.has(writer.visit)) return this.#ending.end(writer, { kind: "end" });
    return this.#ending.diverge(writer, { what: "lookup", field: method, expected: null, actual: args });
  }

  #askedAt(visit: number): AskedAt {
    const before = this.nextJump()?.entry ?? Number.POSITIVE_INFINITY;
    return { visit, lastPlayed: this.#steps.lastPlayed, before };
  }

  #pass(at: string): void {
    this.time = Math.max(this.time, Date.parse(at));
  }

  /** The stage was run again after that, by another process: what it then worked out beside its steps may be another thing. */
  #isBegunAnew(writer: RunSession, entry: number): boolean {
    return lastResumed(this.#recording, writer.visit) > entry;
  }

  #unrecorded(writer: RunSession, name: string): never {
    if (!this.#recording.ended.has(writer.visit)) return this.#endOrJump(writer);
    return this.#ending.diverge(writer, { what: "step", field: "name", expected: null, actual: name, step: name });
  }

  /** What is left of this visit was done only after the run had gone on from somewhere else, or with other options. */
  #checkJump(writer: RunSession): void {
    const [first] = this.#steps.left(writer.visit);
    const jump = this.nextJump();
    if (first !== undefined && jump !== null && first.entry > jump.entry)
      this.#ending.end(writer, { kind: "jump", sequence: jump.sequence });
  }

  #endOrJump(writer: RunSession): never {
    const next = this.nextJump();
    return this.#ending.end(writer, next === null ? { kind: "end" } : { kind: "jump", sequence: next.sequence });
  }
}

const NO_RECORD = { field: "record", expected: null, actual: "none of this call" } as const;

interface CheckpointLineParams {
  readonly recording: Recording;
  readonly load: (sequence: number) => Promise<Checkpoint>;
  /** Makes the scratch worktree hold these files, on this head. null: it does; else what lies there that no step has left. */
  readonly place: (files: FilesPlane) => Promise<ForeignFiles | null>;
  /** Sequences at which the run went on from somewhere else than where it stood. */
  readonly jumps: ReadonlySet<number>;
  /** Last checkpoint to be made; null: as far as the record goes. */
  readonly to: number | null;
}

/** `between`: recorded before the request, and not asked for by the workflow. */
interface NextSave {
  readonly kind: "own" | "between";
  readonly request: SaveRequest;
}

export interface ForeignFiles {
  readonly expected: string;
  readonly actual: string;
}

/** The checkpoints on record, in their order: each that is made is laid beside its original, and those that nobody makes again are put in. */
class CheckpointLine {
  compared = 0;
  filled = 0;
  lastSame: number | null = null;
  readonly #params: CheckpointLineParams;
  readonly #steps: StepLine;
  readonly #ending: Ending;
  #cursor = 0;
  #comparedEntry = 0;
  /** A checkpoint of somebody else's was put in, with the files that it had. */
  #isFilled = false;

  constructor(params: CheckpointLineParams, parts: { readonly steps: StepLine; readonly ending: Ending }) {
    this.#params = params;
    this.#steps = parts.steps;
    this.#ending = parts.ending;
  }

  begin(at: RecordedCheckpoint): void {
    this.#cursor = this.#params.recording.checkpoints.findIndex(({ sequence }) => sequence === at.sequence) + 1;
    this.#comparedEntry = at.entry;
  }

  /** How many were passed. */
  get passed(): number {
    return this.#cursor;
  }

  get next(): RecordedCheckpoint | undefined {
    return this.#params.recording.checkpoints[this.#cursor];
  }

  nextJump(): RecordedCheckpoint | null {
    const { recording, jumps } = this.#params;
    return recording.checkpoints.slice(this.#cursor).find(({ sequence }) => jumps.has(sequence)) ?? null;
  }

  firstLeft(): RecordedCheckpoint | null {
    return this.#params.recording.checkpoints.slice(this.#cursor).find(({ isOwn }) => isOwn) ?? null;
  }

  /** Was this one taken at this very point? */
  isNext(writer: RunSession, { trigger, name }: { readonly trigger: string; readonly name: string }): boolean {
    const { next } = this;
    if (next === undefined || next.trigger !== trigger || next.name !== name) return false;
    return this.#steps.standsAt(writer.visit, next.entry);
  }

  /** What is saved next: the request, or a recorded checkpoint that came between. `made`: when it was. */
  async before(writer: RunSession, request: SaveRequest, made: (at: string) => void): Promise<NextSave> {
    writer.halt.check();
    const { next } = this;
    const { to, jumps } = this.#params;
    if (next === undefined || (to !== null && next.sequence > to)) return this.#ending.end(writer, { kind: "end" });
    if (jumps.has(next.sequence)) return this.#ending.end(writer, { kind: "jump", sequence: next.sequence });
    if (next.trigger === request.trigger && next.name === (request.name ?? null)) {
      this.#allAsked(writer, next);
      const adopt = await this.#adopted(next);
      made(next.at);
      // What a step left, and only once everything that lay there before it has been put in.
      if (this.#steps.isOf(next.sequence) || this.#isFilled) await this.#placeFilesOf(writer, next.sequence);
      this.#isFilled = false;
      return { kind: "own", request: { ...request, change: (planes, at) => adopt(changed(planes, request, at)) } };
    }
    if (next.isOwn) {
      this.#allAsked(writer, next);
      const at = { checkpoint: next.sequence, entry: next.entry };
      const [expected, actual] = [headingOf(next), headingOf({ ...request, name: request.name ?? null })];
      return this.#ending.diverge(writer, { ...at, what: "checkpoint", field: "trigger", expected, actual });
    }
    return { kind: "between", request: await this.#fill(writer, next) };
  }

  async saved(writer: RunSession, saved: CheckpointSummary): Promise<void> {
    const { next } = this;
    if (next === undefined) return;
    const at = { checkpoint: next.sequence, entry: next.entry, what: "checkpoint" } as const;
    if (saved.sequence !== next.sequence)
      this.#ending.diverge(writer, { ...at, field: "sequence", expected: next.sequence, actual: saved.sequence });
    const { planes } = await this.#params.load(next.sequence);
    const change = comparePlanes(planes, writer.planesWith(writer.files));
    if (change !== null) this.#ending.diverge(writer, { ...at, ...change });
    this.compared += 1;
    this.lastSame = next.sequence;
    this.#cursor += 1;
    this.#comparedEntry = next.entry;
    if (this.#params.to === next.sequence) this.#ending.end(writer, { kind: "end" });
  }

  async #placeFilesOf(writer: RunSession, sequence: number): Promise<void> {
    const { planes } = await this.#params.load(sequence);
    const foreign = planes.files === null ? null : await this.#params.place(planes.files);
    if (foreign !== null)
      this.#ending.diverge(writer, { what: "files", field: "tree", ...foreign, checkpoint: sequence });
  }

  /** A stage that concludes without a step that it did then. */
  #allAsked(writer: RunSession, next: RecordedCheckpoint): void {
    const missing = this.#steps.unasked(writer.visit, next.entry);
    if (missing === undefined) return;
    const { step, entry } = missing;
    this.#ending.diverge(writer, { what: "missing", field: "name", expected: step, actual: null, step, entry });
  }

  /** Times and what agents keep of a conversation come from the record: they cannot be computed. */
  async #adopted(next: RecordedCheckpoint): Promise<(planes: Planes) => Planes> {
    const { planes: recorded } = await this.#params.load(next.sequence);
    const { budget } = recorded.position;
    const { milliseconds } = budget.spent;
    const isTakenUp = this.#params.recording.takenUp.some((entry) => entry > this.#comparedEntry && entry < next.entry);
    return (planes) => {
      const { position } = planes;
      const { spent } = position.budget;
      // What a process that died had spent is known from the agent's own record only.
      const adopted = isTakenUp ? budget : { ...position.budget, spent: { ...spent, milliseconds } };
      return { ...planes, conversation: recorded.conversation, position: { ...position, budget: adopted } };
    };
  }

  async #fill(writer: RunSession, next: RecordedCheckpoint): Promise<SaveRequest> {
    const { planes, trigger } = await this.#params.load(next.sequence);
    const isMidway = planes.position.visit.running !== undefined;
    const here = writer.planesWith(planes.files);
    const same = {
      ...here,
      conversation: planes.conversation,
      position: { ...here.position, budget: planes.position.budget },
    };
    if (!isMidway && comparePlanes(planes, same) !== null)
      return this.#ending.end(writer, { kind: "jump", sequence: next.sequence });
    await this.#placeFilesOf(writer, next.sequence);
    this.#isFilled = true;
    this.filled += 1;
    this.#cursor += 1;
    return { trigger, ...(next.name === null ? {} : { name: next.name }) };
  }
}

function changed(planes: Planes, { change }: SaveRequest, at: SavedAt): Planes {
  return change === undefined ? planes : change(planes, at);
}

function headingOf({ trigger, name }: { readonly trigger: string; readonly name: string | null }): string {
  return name === null ? trigger : `${trigger} (${name})`;
}

/** The steps on record, in the order in which they ended, and how far they have been played. */
class StepLine {
  /** How many were played, those that were played twice included. */
  count = 0;
  /** Entry of the newest. */
  lastPlayed = 0;
  readonly #steps: readonly RecordedStep[];
  readonly #begun = new Set<number>();
  readonly #done = new Set<number>();
  #wake: (() => void)[] = [];

  constructor({ steps }: Recording) {
    this.#steps = steps;
  }

  begin(at: number): void {
    this.lastPlayed = at;
    for (const set of [this.#begun, this.#done]) for (const entry of set) if (entry > at) set.delete(entry);
  }

  get done(): number {
    return this.#done.size;
  }

  /** Of this visit, not played yet. */
  left(visit: number): readonly RecordedStep[] {
    return this.#steps.filter((step) => step.visit === visit && !this.#done.has(step.entry));
  }

  /** The next of all. */
  next(): RecordedStep | undefined {
    return this.#steps.find(({ entry }) => !this.#done.has(entry));
  }

  /** The one of this name, if its turn has come. */
  take(visit: number, name: string): RecordedStep | null {
    const left = this.left(visit);
    const own = left.find(({ step, entry }) => step === name && !this.#begun.has(entry));
    if (own === undefined || own !== left[0]) return null;
    this.#begun.add(own.entry);
    return own;
  }

  played({ entry }: RecordedStep): void {
    this.#done.add(entry);
    this.lastPlayed = Math.max(this.lastPlayed, entry);
    this.count += 1;
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Before this entry, and nobody has asked for it. */
  unasked(visit: number, before: number): RecordedStep | undefined {
    return this.left(visit).find(({ entry }) => entry < before && !this.#begun.has(entry));
  }

  /** Are all of the visit that come before this entry played, and no others? */
  standsAt(visit: number, before: number): boolean {
    return this.#steps.every((step) => step.visit !== visit || this.#done.has(step.entry) === step.entry < before);
  }

  isOf(checkpoint: number): boolean {
    return this.#steps.some((step) => step.checkpoint === checkpoint);
  }

  /** false: nobody plays anything any more. */
  async moves(writer: RunSession, patienceMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, patienceMs, false);
    this.#wake.push(() => resolve(true));
    const moved = await Promise.race([promise, writer.halt.halted.then(() => true)]);
    clearTimeout(timer);
    return moved;
  }
}

/** Why a replay stopped without having parted from its record. */
type PlayStop =
  | { readonly kind: "end" }
  /** Somebody went back, raised a limit, took the world's changes over: it goes on from this checkpoint. */
  | { readonly kind: "jump"; readonly sequence: number };

/** How a replay comes to its end: whatever is found first counts, and stops the engine that works it through. */
class Ending {
  divergence: Divergence | null = null;
  stop: PlayStop | null = null;

  end(writer: RunSession, stop: PlayStop): never {
    this.stop ??= stop;
    return halt(writer, "the record ends here");
  }

  diverge(
    writer: RunSession,
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
    return halt(writer, "it parts from its record here");
  }
}

function halt(writer: RunSession, why: string): never {
  const end = new PlayEnd(why);
  writer.halt.stop(end);
  throw end;
}

/** Where in the record a stage asks. */
interface AskedAt {
  readonly visit: number;
  /** Newest step that was played: what its commit holds, its own work may have asked. */
  readonly lastPlayed: number;
  /** Entry from which on the run went on from somewhere else. */
  readonly before: number;
}

/**
 * What clock and forge said to a stage beside its steps. A stage is run anew by whoever takes the run up, so it is the last process whose answers it went by;
 * those before it died with theirs.
 */
class RecordedAnswers {
  readonly #recording: Recording;
  readonly #answered = new Set<number>();
  /** Of the next reading of the clock. */
  #read = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
  }

  /** The run stands at this entry: what was said later is to be said again. */
  begin(at: number): void {
    const { readings } = this.#recording;
    const next = readings.findIndex(({ entry }) => entry > at);
    this.#read = next === -1 ? readings.length : next;
    for (const entry of this.#answered) if (entry > at) this.#answered.delete(entry);
  }

  /** The next reading that no step has swallowed; null: there is none. */
  now(at: AskedAt): number | null {
    const { readings } = this.#recording;
    const isOwn = this.#byLastLife(readings, at);
    const next = readings.findIndex((one, index) => index >= this.#read && one.entry >= at.lastPlayed && isOwn(one));
    if (next === -1) return null;
    this.#read = next + 1;
    return readings[next]?.value ?? null;
  }

  /** null: this was not asked then. */
  lookUp(method: string, args: readonly Json[], at: AskedAt): RecordedLookup["answer"] | null {
    const text = canonicalJson(args);
    const asked = this.#recording.lookups.filter((one) => one.method === method && canonicalJson(one.args) === text);
    const isOwn = this.#byLastLife(asked, at);
    const own = asked.filter((one) => isOwn(one) && !this.#answered.has(one.entry));
    // Of steps that go on beside each other, one may be played before what goes on beside it has asked.
    const found = own.find(({ entry }) => entry > at.lastPlayed) ?? own[0];
    if (found === undefined) return null;
    this.#answered.add(found.entry);
    return found.answer;
  }

  /**
   * Said in this visit, and to the process that ended it. Where none did, to the newest that got so far as to ask: one that was killed before any commit left
   * nothing.
   */
  #byLastLife(said: readonly Said[], { visit, before }: AskedAt): (one: Said) => boolean {
    const { ended, takenUp } = this.#recording;
    const isHere = (one: Said): boolean => one.visit === visit && one.entry < before;
    const isEnded = (ended.get(visit) ?? Number.POSITIVE_INFINITY) < before;
    const newest = said.findLast(isHere)?.entry ?? 0;
    const from = isEnded ? lastResumed(this.#recording, visit) : (takenUp.findLast((entry) => entry < newest) ?? 0);
    return (one) => isHere(one) && one.entry > from;
  }
}

interface Said {
  readonly visit: number;
  readonly entry: number;
}

/** Thrown through the engine to end a replay where its record ends, or where it parts from it. */
export class PlayEnd extends Error {
  constructor(why: string) {
    super(why);
    this.name = "PlayEnd";
  }
}

/** A failed try as it was recorded. What stages decide by is its code. */
export function playedFailure(came: { readonly reason: string; readonly code: string | null }): Error {
  const code = ERROR_CODES.find((known) => known === came.code);
  const error = code === undefined ? new Error(came.reason) : new HoldfastError({ code, message: came.reason });
  failures.add(error);
  return error;
}

export function isPlayedFailure(error: unknown): boolean {
  return error instanceof Error && failures.has(error);
}

const failures = new WeakSet<Error>();

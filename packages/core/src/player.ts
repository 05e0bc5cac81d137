// The replayer: answers an engine's steps, clock and forge queries from the record of a run, and compares every checkpoint with its
// original.

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
  /** Reads the files of the scratch worktree. */
  readonly look: (workspace: Workspace) => Promise<FilesPlane>;
  readonly mask: (text: string) => string;
  /** How long a step waits for the one that was recorded before it. */
  readonly patienceMs: number;
}

/**
 * The record of a run, as an engine replays it. Steps are answered in the order in which they ended, and each checkpoint is compared with
 * its original. The first divergence stops the replay.
 */
export class Player {
  readonly mask: (text: string) => string;
  /** The replayed time, in milliseconds since the epoch. */
  time = 0;
  agents = 0;
  readonly #params: PlayerParams;
  readonly #recording: Recording;
  readonly #ending = new Ending();
  readonly #steps: StepLine;
  readonly #checkpoints: CheckpointLine;
  readonly #answers: RecordedAnswers;
  #writer: RunSession | undefined;
  /** Entry of the checkpoint that the replay began from or last jumped to. */
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

  /** Checkpoints that the workflow did not take itself; they are copied from the record. */
  get filled(): number {
    return this.#checkpoints.filled;
  }

  /** Newest checkpoint that was equal to its original. */
  get lastSame(): number | null {
    return this.#checkpoints.lastSame;
  }

  attach(writer: RunSession): void {
    this.#writer = writer;
  }

  /** Starts at this checkpoint, which is also in the scratch store. Everything after it is still to be replayed. */
  begin(at: RecordedCheckpoint): void {
    this.#ending.stop = null;
    this.#pass(at.at);
    this.#from = at.entry;
    this.#steps.begin(at.entry);
    this.#checkpoints.begin(at);
    this.#answers.begin(at.entry);
  }

  /** Grows with every step and checkpoint that is replayed. */
  get progress(): number {
    return this.#steps.done + this.#checkpoints.passed;
  }

  /** The next checkpoint at which the run continued from another position. */
  nextJump(): RecordedCheckpoint | null {
    return this.#checkpoints.nextJump();
  }

  /** The first checkpoint that the workflow saved in the record and has not reached in the replay. */
  firstLeft(): RecordedCheckpoint | null {
    return this.#checkpoints.firstLeft();
  }

  /** Advances the clock to the next recorded step or checkpoint. */
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
    // The step itself is not recorded either; `next` reports that when the step is requested.
    if (recorded === undefined && own === undefined) return;
    const change = recorded === undefined ? NO_RECORD : compareAsked(recorded.asked, asked);
    if (change !== null && !this.#isBegunAnew(writer, recorded?.entry ?? 0))
      this.#ending.diverge(writer, { ...change, what: "call", step, entry: recorded?.entry ?? null });
    this.agents += 1;
  }

  /** Returns the step of this name when its turn comes. */
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

  /** Costs of attempts up to the starting checkpoint are already in that checkpoint's budget. */
  spentOn({ spent }: RecordedStep): readonly Amounts[] {
    return spent.filter(({ entry }) => entry > this.#from).map(({ amounts }) => amounts);
  }

  /** Checks, in its turn, an event that the workflow makes itself. */
  async recorded(writer: RunSession, name: string, event: Json): Promise<Json> {
    const step = await this.next(writer, name);
    this.played(step);
    const expected = step.came.kind === "finished" ? step.came.result : null;
    const change = firstChange(expected, event);
    if (change !== null && !this.#isBegunAnew(writer, step.entry))
      this.#ending.diverge(writer, { ...change, what: "event", step: name, entry: step.entry });
    return expected;
  }

  /** The clock as the stage read it in the record. */
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

  /**
   * Whether the record takes this checkpoint at exactly this point. Whether one was needed depended on settings and on other work in
   * flight.
   */
  isNext(writer: RunSession, request: { readonly trigger: string; readonly name: string }): boolean {
    return this.#checkpoints.isNext(writer, request);
  }

  /** What to save next: the request itself, or a recorded checkpoint that came before it. */
  before(writer: RunSession, request: SaveRequest): Promise<NextSave> {
    return this.#checkpoints.before(writer, request, (at) => this.#pass(at));
  }

  saved(writer: RunSession, saved: CheckpointSummary): Promise<void> {
    return this.#checkpoints.saved(writer, saved);
  }

  /** The forge's recorded answer. */
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

  /** Another process executed the stage again after this entry. What that process computed outside of steps may differ. */
  #isBegunAnew(writer: RunSession, entry: number): boolean {
    return lastResumed(this.#recording, writer.visit) > entry;
  }

  #unrecorded(writer: RunSession, name: string): never {
    if (!this.#recording.ended.has(writer.visit)) return this.#endOrJump(writer);
    return this.#ending.diverge(writer, { what: "step", field: "name", expected: null, actual: name, step: name });
  }

  /**
   * Ends at a jump when the rest of this stage attempt was executed only after the run continued from another position or with other
   * options.
   */
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
  /** Makes the scratch worktree hold these files, on this head. Null: it does. Otherwise the unexpected files that no step has left. */
  readonly place: (files: FilesPlane) => Promise<ForeignFiles | null>;
  /** Sequences of the checkpoints at which the run continued from another position. */
  readonly jumps: ReadonlySet<number>;
  /** Last checkpoint to replay; null: up to the end of the record. */
  readonly to: number | null;
}

/** `between`: recorded before the request, and not requested by the workflow. */
interface NextSave {
  readonly kind: "own" | "between";
  readonly request: SaveRequest;
}

export interface ForeignFiles {
  readonly expected: string;
  readonly actual: string;
}

/**
 * The recorded checkpoints, in order. Each replayed one is compared with its original; those that the workflow does not make are copied in.
 */
class CheckpointLine {
  compared = 0;
  filled = 0;
  lastSame: number | null = null;
  readonly #params: CheckpointLineParams;
  readonly #steps: StepLine;
  readonly #ending: Ending;
  #cursor = 0;
  #comparedEntry = 0;
  /** A checkpoint that the workflow did not make was copied in, with its files. */
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

  /** How many checkpoints were passed. */
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

  /** Whether the record takes this checkpoint at exactly this point. */
  isNext(writer: RunSession, { trigger, name }: { readonly trigger: string; readonly name: string }): boolean {
    const { next } = this;
    if (next === undefined || next.trigger !== trigger || next.name !== name) return false;
    return this.#steps.standsAt(writer.visit, next.entry);
  }

  /** Returns what to save next: the request, or a recorded checkpoint that came before it. Reports the recorded time to `made`. */
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
      // The files of a step are placed only after every earlier checkpoint has been copied in.
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

  /** Diverges when a stage concludes without a step that the record has. */
  #allAsked(writer: RunSession, next: RecordedCheckpoint): void {
    const missing = this.#steps.unasked(writer.visit, next.entry);
    if (missing === undefined) return;
    const { step, entry } = missing;
    this.#ending.diverge(writer, { what: "missing", field: "name", expected: step, actual: null, step, entry });
  }

  /** Times and the agent's conversation come from the record, because a replay cannot compute them. */
  async #adopted(next: RecordedCheckpoint): Promise<(planes: Planes) => Planes> {
    const { planes: recorded } = await this.#params.load(next.sequence);
    const { budget } = recorded.position;
    const { milliseconds } = budget.spent;
    const isTakenUp = this.#params.recording.takenUp.some((entry) => entry > this.#comparedEntry && entry < next.entry);
    return (planes) => {
      const { position } = planes;
      const { spent } = position.budget;
      // The cost of a process that died is known only from the agent's own record.
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

/** The recorded steps, in the order in which they ended, and how far the replay has come. */
class StepLine {
  /** How many steps were replayed; a step that was replayed twice counts twice. */
  count = 0;
  /** Entry of the newest replayed step. */
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

  /** The steps of this stage attempt that are not replayed yet. */
  left(visit: number): readonly RecordedStep[] {
    return this.#steps.filter((step) => step.visit === visit && !this.#done.has(step.entry));
  }

  /** The next step of any stage attempt. */
  next(): RecordedStep | undefined {
    return this.#steps.find(({ entry }) => !this.#done.has(entry));
  }

  /** Returns the step of this name if its turn has come, otherwise null. */
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

  /** A step before this entry that the workflow has not requested. */
  unasked(visit: number, before: number): RecordedStep | undefined {
    return this.left(visit).find(({ entry }) => entry < before && !this.#begun.has(entry));
  }

  /** Whether all steps of the stage attempt before this entry are replayed, and no later one. */
  standsAt(visit: number, before: number): boolean {
    return this.#steps.every((step) => step.visit !== visit || this.#done.has(step.entry) === step.entry < before);
  }

  isOf(checkpoint: number): boolean {
    return this.#steps.some((step) => step.checkpoint === checkpoint);
  }

  /** Waits for another step to be replayed. False: none was within the time. */
  async moves(writer: RunSession, patienceMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, patienceMs, false);
    this.#wake.push(() => resolve(true));
    const moved = await Promise.race([promise, writer.halt.halted.then(() => true)]);
    clearTimeout(timer);
    return moved;
  }
}

/** Why a replay stopped without a divergence. */
type PlayStop =
  | { readonly kind: "end" }
  /** The user restored a checkpoint, raised a limit or accepted changes of the world: the run continues from this checkpoint. */
  | { readonly kind: "jump"; readonly sequence: number };

/** How a replay ends. The first cause counts, and it stops the engine. */
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

/** The position in the record at which a stage asks. */
interface AskedAt {
  readonly visit: number;
  /** Entry of the newest replayed step. Answers in its commit may belong to the step itself. */
  readonly lastPlayed: number;
  /** Entry from which on the run continued from another position. */
  readonly before: number;
}

/**
 * What clock and forge answered to a stage outside of its steps. A process that resumes a run executes the stage anew, so the answers of
 * the last process count. Answers of earlier processes died with them.
 */
class RecordedAnswers {
  readonly #recording: Recording;
  readonly #answered = new Set<number>();
  /** Index of the next clock reading. */
  #read = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
  }

  /** Starts at this entry: later answers are given again. */
  begin(at: number): void {
    const { readings } = this.#recording;
    const next = readings.findIndex(({ entry }) => entry > at);
    this.#read = next === -1 ? readings.length : next;
    for (const entry of this.#answered) if (entry > at) this.#answered.delete(entry);
  }

  /** The next reading that no replayed step has consumed; null: there is none. */
  now(at: AskedAt): number | null {
    const { readings } = this.#recording;
    const isOwn = this.#byLastLife(readings, at);
    const next = readings.findIndex((one, index) => index >= this.#read && one.entry >= at.lastPlayed && isOwn(one));
    if (next === -1) return null;
    this.#read = next + 1;
    return readings[next]?.value ?? null;
  }

  /** Null: the record has no such query. */
  lookUp(method: string, args: readonly Json[], at: AskedAt): RecordedLookup["answer"] | null {
    const text = canonicalJson(args);
    const asked = this.#recording.lookups.filter((one) => one.method === method && canonicalJson(one.args) === text);
    const isOwn = this.#byLastLife(asked, at);
    const own = asked.filter((one) => isOwn(one) && !this.#answered.has(one.entry));
    // With parallel steps, one step may be replayed before another has asked.
    const found = own.find(({ entry }) => entry > at.lastPlayed) ?? own[0];
    if (found === undefined) return null;
    this.#answered.add(found.entry);
    return found.answer;
  }

  /**
   * Selects the answers of this stage attempt that went to the process that ended it. If none did, they are those of the newest process
   * that asked: a process that was killed before any commit left nothing.
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

/** Thrown through the engine to end a replay at the end of the record or at a divergence. */
export class PlayEnd extends Error {
  constructor(why: string) {
    super(why);
    this.name = "PlayEnd";
  }
}

/** A failed attempt as it was recorded. Stages decide by its code. */
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

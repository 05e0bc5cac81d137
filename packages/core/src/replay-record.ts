// How far a replay has come in the record of a run: its steps, its checkpoints, and the answers of clock and forge.

import type { Checkpoint, CheckpointSummary, FilesPlane, Planes } from "./checkpoint.ts";
import type { Json } from "./json.ts";
import type { RecordedLookup } from "./recorded-calls.ts";
import {
  type Divergence,
  type RecordedCheckpoint,
  type RecordedStep,
  type Recording,
  comparePlanes,
  lastResumed,
} from "./recording.ts";
import type { RunSession, SaveRequest, SavedAt } from "./run-session.ts";
import { canonicalJson } from "./values.ts";

export interface CheckpointLineParams {
  readonly recording: Recording;
  readonly load: (sequence: number) => Promise<Checkpoint>;
  /** Makes the scratch worktree hold these files, on this head. Null: it does. Otherwise the unexpected files that no step has left. */
  readonly place: (files: FilesPlane) => Promise<UnexpectedFiles | null>;
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

export interface UnexpectedFiles {
  readonly expected: string;
  readonly actual: string;
}

/**
 * The recorded checkpoints, in order. Each replayed one is compared with its original; those that the workflow does not make are copied in.
 */
export class CheckpointLine {
  compared = 0;
  /** Checkpoints that the workflow did not take itself; they are copied from the record. */
  filled = 0;
  /** Newest checkpoint that was equal to its original. */
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

  /** The next checkpoint at which the run continued from another position. */
  nextJump(): RecordedCheckpoint | null {
    const { recording, jumps } = this.#params;
    return recording.checkpoints.slice(this.#cursor).find(({ sequence }) => jumps.has(sequence)) ?? null;
  }

  /** The first checkpoint that the workflow saved in the record and has not reached in the replay. */
  firstLeft(): RecordedCheckpoint | null {
    return this.#params.recording.checkpoints.slice(this.#cursor).find(({ isOwn }) => isOwn) ?? null;
  }

  /** Returns what to save next: the request, or a recorded checkpoint that came before it. Reports the recorded time to `made`. */
  async before(session: RunSession, request: SaveRequest, made: (at: string) => void): Promise<NextSave> {
    session.halt.check();
    const { next } = this;
    const { to, jumps } = this.#params;
    if (next === undefined || (to !== null && next.sequence > to)) return this.#ending.end(session, { kind: "end" });
    if (jumps.has(next.sequence)) return this.#ending.end(session, { kind: "jump", sequence: next.sequence });
    if (next.trigger === request.trigger && next.name === (request.name ?? null)) {
      this.#allAsked(session, next);
      const adopt = await this.#adopted(next);
      made(next.at);
      // The files of a step are placed only after every earlier checkpoint has been copied in.
      if (this.#steps.isOf(next.sequence) || this.#isFilled) await this.#placeFilesOf(session, next.sequence);
      this.#isFilled = false;
      return { kind: "own", request: { ...request, change: (planes, at) => adopt(changed(planes, request, at)) } };
    }
    if (next.isOwn) {
      this.#allAsked(session, next);
      const at = { checkpoint: next.sequence, entry: next.entry };
      const [expected, actual] = [headingOf(next), headingOf({ ...request, name: request.name ?? null })];
      return this.#ending.diverge(session, { ...at, what: "checkpoint", field: "trigger", expected, actual });
    }
    return { kind: "between", request: await this.#fill(session, next) };
  }

  async saved(session: RunSession, saved: CheckpointSummary): Promise<void> {
    const { next } = this;
    if (next === undefined) return;
    const at = { checkpoint: next.sequence, entry: next.entry, what: "checkpoint" } as const;
    if (saved.sequence !== next.sequence)
      this.#ending.diverge(session, { ...at, field: "sequence", expected: next.sequence, actual: saved.sequence });
    const { planes } = await this.#params.load(next.sequence);
    const change = comparePlanes(planes, session.planesWith(session.state.files));
    if (change !== null) this.#ending.diverge(session, { ...at, ...change });
    this.compared += 1;
    this.lastSame = next.sequence;
    this.#cursor += 1;
    this.#comparedEntry = next.entry;
    if (this.#params.to === next.sequence) this.#ending.end(session, { kind: "end" });
  }

  async #placeFilesOf(session: RunSession, sequence: number): Promise<void> {
    const { planes } = await this.#params.load(sequence);
    const unexpected = planes.files === null ? null : await this.#params.place(planes.files);
    if (unexpected !== null)
      this.#ending.diverge(session, { what: "files", field: "tree", ...unexpected, checkpoint: sequence });
  }

  /** Diverges when a stage concludes without a step that the record has. */
  #allAsked(session: RunSession, next: RecordedCheckpoint): void {
    const missing = this.#steps.unasked(session.state.position.stageAttempt.number, next.entry);
    if (missing === undefined) return;
    const { step, entry } = missing;
    this.#ending.diverge(session, { what: "missing", field: "name", expected: step, actual: null, step, entry });
  }

  /** Times and the agent's conversation come from the record, because a replay cannot compute them. */
  async #adopted(next: RecordedCheckpoint): Promise<(planes: Planes) => Planes> {
    const { planes: recorded } = await this.#params.load(next.sequence);
    const { budget } = recorded.position;
    const { milliseconds } = budget.spent;
    const isResumed = this.#params.recording.resumedAt.some(
      (entry) => entry > this.#comparedEntry && entry < next.entry,
    );
    return (planes) => {
      const { position } = planes;
      const { spent } = position.budget;
      // The cost of a process that died is known only from the agent's own record.
      const adopted = isResumed ? budget : { ...position.budget, spent: { ...spent, milliseconds } };
      return { ...planes, conversation: recorded.conversation, position: { ...position, budget: adopted } };
    };
  }

  async #fill(session: RunSession, next: RecordedCheckpoint): Promise<SaveRequest> {
    const { planes, trigger } = await this.#params.load(next.sequence);
    const isMidway = planes.position.stageAttempt.running !== undefined;
    const here = session.planesWith(planes.files);
    const same = {
      ...here,
      conversation: planes.conversation,
      position: { ...here.position, budget: planes.position.budget },
    };
    if (!isMidway && comparePlanes(planes, same) !== null)
      return this.#ending.end(session, { kind: "jump", sequence: next.sequence });
    await this.#placeFilesOf(session, next.sequence);
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
export class StepLine {
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
  left(stageAttempt: number): readonly RecordedStep[] {
    return this.#steps.filter((step) => step.stageAttempt === stageAttempt && !this.#done.has(step.entry));
  }

  /** The next step of any stage attempt after this entry. */
  next(after = 0): RecordedStep | undefined {
    return this.#steps.find(({ entry }) => entry > after && !this.#done.has(entry));
  }

  /** Returns the step of this name if its turn has come, otherwise null. */
  take(stageAttempt: number, name: string): RecordedStep | null {
    const left = this.left(stageAttempt);
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
  unasked(stageAttempt: number, before: number): RecordedStep | undefined {
    return this.left(stageAttempt).find(({ entry }) => entry < before && !this.#begun.has(entry));
  }

  /** Whether all steps of the stage attempt before this entry are replayed, and no later one. */
  standsAt(stageAttempt: number, before: number): boolean {
    return this.#steps.every(
      (step) => step.stageAttempt !== stageAttempt || this.#done.has(step.entry) === step.entry < before,
    );
  }

  isOf(checkpoint: number): boolean {
    return this.#steps.some((step) => step.checkpoint === checkpoint);
  }

  /** Waits for another step to be replayed. False: none was within the time. */
  async moves(session: RunSession, patienceMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, patienceMs, false);
    this.#wake.push(() => resolve(true));
    const moved = await Promise.race([promise, session.halt.halted.then(() => true)]);
    clearTimeout(timer);
    return moved;
  }
}

/** Why a replay stopped without a divergence. */
export type ReplayStop =
  | { readonly kind: "end" }
  /** The user restored a checkpoint, raised a limit or accepted changes of the world: the run continues from this checkpoint. */
  | { readonly kind: "jump"; readonly sequence: number };

/** How a replay ends. The first cause counts, and it stops the engine. */
export class Ending {
  divergence: Divergence | null = null;
  stop: ReplayStop | null = null;

  end(session: RunSession, stop: ReplayStop): never {
    this.stop ??= stop;
    return halt(session, "the record ends here");
  }

  diverge(
    session: RunSession,
    found: Pick<Divergence, "what" | "field" | "expected" | "actual"> & {
      readonly step?: string;
      readonly entry?: number | null;
      readonly checkpoint?: number;
    },
  ): never {
    const { stage, iteration, stageAttempt } = session.position;
    const { what, field, expected, actual, step = null, entry = null, checkpoint = null } = found;
    const where = { stage, iteration, stageAttempt: stageAttempt.number, step, checkpoint, entry };
    this.divergence ??= { where, what, field, expected, actual };
    return halt(session, "it diverges from its record here");
  }
}

function halt(session: RunSession, why: string): never {
  const end = new ReplayEnd(why);
  session.halt.stop(end);
  throw end;
}

/** The position in the record at which a stage asks. */
export interface AskedAt {
  readonly stageAttempt: number;
  /** Entry of the newest replayed step. Answers in its commit may belong to the step itself. */
  readonly lastPlayed: number;
  /** Entry from which on the run continued from another position. */
  readonly before: number;
}

/**
 * What clock and forge answered to a stage outside of its steps. A process that resumes a run executes the stage again, so the answers of
 * the last process count. Answers of earlier processes died with them.
 */
export class RecordedAnswers {
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
  #byLastLife(answers: readonly RecordedAnswer[], { stageAttempt, before }: AskedAt): (one: RecordedAnswer) => boolean {
    const { ended, resumedAt } = this.#recording;
    const isHere = (one: RecordedAnswer): boolean => one.stageAttempt === stageAttempt && one.entry < before;
    const isEnded = (ended.get(stageAttempt) ?? Number.POSITIVE_INFINITY) < before;
    const newest = answers.findLast(isHere)?.entry ?? 0;
    const from = isEnded
      ? lastResumed(this.#recording, stageAttempt)
      : (resumedAt.findLast((entry) => entry < newest) ?? 0);
    return (one) => isHere(one) && one.entry > from;
  }
}

interface RecordedAnswer {
  readonly stageAttempt: number;
  readonly entry: number;
}

/** Thrown through the engine to end a replay at the end of the record or at a divergence. */
export class ReplayEnd extends Error {
  constructor(why: string) {
    super(why);
    this.name = "ReplayEnd";
  }
}

import type { Amounts } from "../../core/position/position.ts";
import type { Checkpoint, CheckpointSummary, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Json } from "../../core/json.ts";
import { compareAsked } from "../../core/replay/compare-asked.ts";
import type { Divergence } from "../../core/replay/divergence.ts";
import { firstChange } from "../../core/replay/first-change.ts";
import type { AskedAgent, RecordedLookup } from "../../core/replay/recorded-call.ts";
import { callKey, lastTakenUp } from "../../core/replay/recording.ts";
import type { Recording, RecordedCheckpoint, RecordedStep } from "../../core/replay/recording.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { RunSession, SaveRequest } from "../conduct/run-session.ts";
import { CheckpointLine } from "./checkpoint-line.ts";
import type { CheckpointLineParams, NextSave } from "./checkpoint-line.ts";
import { Ending } from "./ending.ts";
import type { PlayStop } from "./ending.ts";
import { RecordedAnswers } from "./recorded-answers.ts";
import type { AskedAt } from "./recorded-answers.ts";
import { StepLine } from "./step-line.ts";

export interface PlayerParams extends CheckpointLineParams {
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
    return lastTakenUp(this.#recording, writer.visit) > entry;
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

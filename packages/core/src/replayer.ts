// The replayer: supplies the executor with the steps, clock readings and forge answers of a recorded run, and compares every checkpoint
// with its original.

import { ERROR_CODES, HoldfastError } from "@holdfast/platform/error";
import type { Checkpoint, CheckpointSummary } from "./checkpoint.ts";
import { approvalOf, effectStep } from "./effect.ts";
import { PUBLISH_CONSENT, approvalStep } from "./effects.ts";
import { checkoutStep, failedTryStep, usageStep } from "./agent-result.ts";
import type { NewEntry } from "./journal.ts";
import type { Json } from "./json.ts";
import { requestOf } from "./record-run.ts";
import type { RecordedLookup } from "./recorded-calls.ts";
import {
  type RecordedCheckpoint,
  type RecordedStep,
  type Recording,
  callKey,
  compareAsked,
  firstChange,
  lastResumed,
} from "./recording.ts";
import {
  type AskedAt,
  CheckpointLine,
  type CheckpointLineParams,
  Ending,
  RecordedAnswers,
  StepLine,
} from "./replay-record.ts";
import type { RunSession, SaveRequest, SessionDriver } from "./run-session.ts";
import { dropStep } from "./side-worktrees.ts";
import { deniedStep } from "./stage.ts";
import { rebaseRunning } from "./state.ts";
import { decisionStep } from "./waiting.ts";
import { capture } from "./values.ts";
import type { AgentCall, StageContext, Workflow } from "./workflow.ts";

interface ReplayerParams extends CheckpointLineParams {
  readonly mask: (text: string) => string;
  /** How long a step waits for the one that was recorded before it. */
  readonly patienceMs: number;
}

/**
 * The record of a run, as the executor replays it. A stage that requests a step finds it finished: the replayer has added the recorded end
 * to the run's state just before, in the order in which the steps ended. Each checkpoint is compared with its original. The first
 * divergence stops the replay.
 */
export class Replayer implements SessionDriver {
  /** The replayed time, in milliseconds since the epoch. */
  time = 0;
  agents = 0;
  readonly ending = new Ending();
  readonly steps: StepLine;
  readonly checkpoints: CheckpointLine;
  readonly #params: ReplayerParams;
  readonly #recording: Recording;
  readonly #answers: RecordedAnswers;
  #driven: RunSession | undefined;
  /** Entry of the checkpoint that the replay began from or last jumped to. */
  #from = 0;
  /** Costs up to this entry are in the budget. */
  #paidTo = 0;

  constructor(params: ReplayerParams) {
    this.#params = params;
    this.#recording = params.recording;
    this.steps = new StepLine(params.recording);
    this.checkpoints = new CheckpointLine(params, { steps: this.steps, ending: this.ending });
    this.#answers = new RecordedAnswers(params.recording);
  }

  /** Starts at this checkpoint, which is also in the scratch store. Everything after it is still to be replayed. */
  begin(at: RecordedCheckpoint): void {
    this.ending.stop = null;
    this.#pass(at.at);
    this.#from = at.entry;
    this.#paidTo = at.entry;
    this.steps.begin(at.entry);
    this.checkpoints.begin(at);
    this.#answers.begin(at.entry);
  }

  /** Grows with every step and checkpoint that is replayed. */
  get progress(): number {
    return this.steps.done + this.checkpoints.passed;
  }

  /** True when the record has a step or a checkpoint of the workflow before the next jump, or no jump. */
  hasMoreBeforeJump(): boolean {
    const before = this.checkpoints.nextJump()?.entry;
    const next = [this.steps.next(this.#from), this.checkpoints.firstLeft()];
    return before === undefined || next.some((one) => one !== null && one !== undefined && one.entry < before);
  }

  /** Advances the clock to the next recorded step or checkpoint. */
  passTime(): void {
    const next = this.steps.next()?.at ?? this.checkpoints.next?.at;
    if (next !== undefined) this.#pass(next);
  }

  drive(session: RunSession): void {
    this.#driven = session;
  }

  /** Checkpoints that were recorded in between are saved first, so that every checkpoint has its recorded number. */
  async save(
    request: SaveRequest,
    save: (request: SaveRequest) => Promise<CheckpointSummary>,
  ): Promise<CheckpointSummary> {
    for (;;) {
      const costs = this.#costsTo(this.checkpoints.next?.entry ?? 0);
      if (costs.length > 0) await this.#session.append(...costs);
      const next = await this.checkpoints.before(this.#session, request, (at) => this.#pass(at));
      const saved = await save(next.request);
      if (next.kind === "between") continue;
      await this.checkpoints.saved(this.#session, saved);
      return saved;
    }
  }

  /** Adds the recorded end of this step to the state when its turn comes, unless the state has it. Throws what the step threw. */
  async supply(name: string): Promise<void> {
    await this.#inTurn(name, (step) => this.#end(step));
  }

  /** Supplies a step that need not be in the record, such as the answer to a question. */
  async supplyRecorded(name: string): Promise<void> {
    if (this.steps.left(this.#stageAttempt).some(({ step }) => step === name)) await this.supply(name);
  }

  /** Supplies an agent call, after the workflow's request was compared with the recorded one. */
  async supplyCall(call: AgentCall): Promise<void> {
    const { name } = call;
    if (!this.#isKnown(name)) {
      await this.supplyRecorded(failedTryStep(call));
      this.#compareCall(call);
      await this.supply(name);
    }
    const usage = decisionStep({ name: usageStep(call), recheck: true });
    for (const question of [checkoutStep(call), usage, deniedStep(call)]) await this.supplyRecorded(question);
  }

  /** Supplies an event that the workflow makes itself, after it was compared with the recorded one. */
  async supplyEvent(name: string, event: Json): Promise<void> {
    await this.#inTurn(name, async (step) => {
      this.#compareEvent(step, event);
      await this.#end(step);
    });
  }

  /** Executes, when its turn comes, a step that depends on the state only and returns nothing. */
  async execute(name: string, work: () => Promise<void>): Promise<void> {
    if (this.#isKnown(name)) return await work();
    await this.#inTurn(name, async (step) => {
      this.#compareEvent(step, null);
      await work();
    });
  }

  /** The clock as the stage read it in the record. */
  now(): number {
    return this.#answers.now(this.#askedAt(this.#driven === undefined ? 0 : this.#stageAttempt)) ?? this.time;
  }

  /** The forge's recorded answer. */
  lookUp(method: string, args: readonly Json[]): RecordedLookup["answer"] {
    const answer = this.#answers.lookUp(method, args, this.#askedAt(this.#stageAttempt));
    if (answer !== null) return answer;
    if (!this.#recording.ended.has(this.#stageAttempt)) return this.ending.end(this.#session, { kind: "end" });
    return this.ending.diverge(this.#session, { what: "lookup", field: method, expected: null, actual: args });
  }

  get #session(): RunSession {
    if (this.#driven === undefined) throw new TypeError("no session is replayed");
    return this.#driven;
  }

  get #stageAttempt(): number {
    return this.#session.state.position.stageAttempt.number;
  }

  #isKnown(name: string): boolean {
    return Object.hasOwn(this.#session.state.position.stageAttempt.steps, name);
  }

  async #inTurn(name: string, replay: (step: RecordedStep) => Promise<void>): Promise<void> {
    if (this.#isKnown(name)) return;
    const step = await this.#next(name);
    try {
      await this.#saveBefore();
      this.#pass(step.at);
      await replay(step);
    } finally {
      this.steps.played(step);
    }
  }

  /**
   * Takes the checkpoints before risky steps and effects that the record has at exactly this point. Whether one was needed depended on
   * settings and on other work in flight.
   */
  async #saveBefore(): Promise<void> {
    for (;;) {
      const { next } = this.checkpoints;
      if (next === undefined || !BEFORE.has(next.trigger) || !this.steps.standsAt(this.#stageAttempt, next.entry))
        return;
      await this.#session.save(requestFor(await this.#params.load(next.sequence)));
    }
  }

  #compareCall(call: AgentCall): void {
    const session = this.#session;
    const { config, position } = session.state;
    this.#checkJump();
    const own = this.steps.left(this.#stageAttempt).find((one) => one.step === call.name);
    const recorded = own?.call ?? this.#recording.agents.get(callKey(this.#stageAttempt, call.name));
    // The step itself is not recorded either; `next` reports that when the step is requested.
    if (recorded === undefined && own === undefined) return;
    const asked = requestOf(call, { config, iteration: position.iteration, mask: this.#params.mask });
    const change = recorded === undefined ? NO_RECORD : compareAsked(recorded.asked, asked);
    const entry = recorded?.entry ?? null;
    if (change !== null && !this.#isRestarted(entry ?? 0))
      this.ending.diverge(session, { ...change, what: "call", step: call.name, entry });
    this.agents += 1;
  }

  #compareEvent({ step, entry, came }: RecordedStep, event: Json): void {
    const change = firstChange(came.kind === "finished" ? came.result : null, event);
    if (change !== null && !this.#isRestarted(entry))
      this.ending.diverge(this.#session, { ...change, what: "event", step, entry });
  }

  /** Returns the step of this name when its turn comes. */
  async #next(name: string): Promise<RecordedStep> {
    const session = this.#session;
    const stageAttempt = this.#stageAttempt;
    for (;;) {
      session.halt.check();
      this.#checkJump();
      const own = this.steps.take(stageAttempt, name);
      if (own !== null) return own;
      const [first] = this.steps.left(stageAttempt);
      if (first === undefined) return this.#unrecorded(name);
      if (await this.steps.moves(session, this.#params.patienceMs)) continue;
      const about = { what: "step", field: "name", actual: name, expected: first.step } as const;
      return this.ending.diverge(session, { ...about, step: name, entry: first.entry });
    }
  }

  /** Commits the recorded end of a step: its result, its costs, the files that it left, and its checkpoint if it had one. */
  async #end(recorded: RecordedStep): Promise<void> {
    const session = this.#session;
    const { step, stageAttempt, came, checkpoint } = recorded;
    const entries: readonly NewEntry[] = [
      ...this.#costsTo(recorded.entry),
      came.kind === "finished"
        ? {
            kind: "step.finished",
            body: { recorded: came.recorded, result: came.result, spent: null, step, stageAttempt },
          }
        : { kind: "step.failed", body: { reason: came.reason, spent: null, step, stageAttempt } },
    ];
    if (checkpoint === null) await session.append(...entries);
    else {
      await session.save({
        ...requestFor(await this.#params.load(checkpoint)),
        prepare: () => entries,
        change: (planes, { sequence }) => rebaseRunning(planes, sequence),
      });
    }
    if (came.kind === "aborted") session.halt.abort(came.reason);
    if (came.kind === "failed") throw recordedFailure(came);
  }

  /** The recorded costs up to this entry that are not paid yet, also of other steps: a checkpoint has them all. */
  #costsTo(last: number): readonly NewEntry[] {
    const due = this.#recording.costs.filter(({ entry }) => entry > this.#paidTo && entry <= last);
    this.#paidTo = Math.max(this.#paidTo, last);
    return due.map(({ stageAttempt, step, amounts: spent, held }) => ({
      kind: "step.lost",
      body: { stageAttempt, step, spent, ...(held === null ? {} : { held }) },
    }));
  }

  #askedAt(stageAttempt: number): AskedAt {
    const before = this.checkpoints.nextJump()?.entry ?? Number.POSITIVE_INFINITY;
    return { stageAttempt, lastPlayed: this.steps.lastPlayed, before };
  }

  #pass(at: string): void {
    this.time = Math.max(this.time, Date.parse(at));
  }

  /** Another process executed the stage again after this entry. What that process computed outside of steps may differ. */
  #isRestarted(entry: number): boolean {
    return lastResumed(this.#recording, this.#stageAttempt) > entry;
  }

  #unrecorded(name: string): never {
    const session = this.#session;
    if (this.#recording.ended.has(this.#stageAttempt))
      return this.ending.diverge(session, { what: "step", field: "name", expected: null, actual: name, step: name });
    const next = this.checkpoints.nextJump();
    return this.ending.end(session, next === null ? { kind: "end" } : { kind: "jump", sequence: next.sequence });
  }

  /**
   * Ends at a jump when the rest of this stage attempt was executed only after the run continued from another position or with other
   * options.
   */
  #checkJump(): void {
    const [first] = this.steps.left(this.#stageAttempt);
    const jump = this.checkpoints.nextJump();
    if (first !== undefined && jump !== null && first.entry > jump.entry)
      this.ending.end(this.#session, { kind: "jump", sequence: jump.sequence });
  }
}

const BEFORE: ReadonlySet<string> = new Set(["before_risky", "before_external"]);

function requestFor({ trigger, name }: Pick<Checkpoint, "trigger" | "name">): SaveRequest {
  return { trigger, ...(name === null ? {} : { name }) };
}

/** The same workflow for a replay: before a stage requests a step, the replayer supplies it. The stages read the recorded clock. */
export function replayedWorkflow<S extends object>(workflow: Workflow<S>, replayer: Replayer): Workflow<S> {
  const stages = Object.entries(workflow.stages).map(
    ([name, stage]) => [name, (context: StageContext<S>) => stage(suppliedContext(context, replayer))] as const,
  );
  return { ...workflow, stages: Object.fromEntries(stages) };
}

function suppliedContext<S extends object>(context: StageContext<S>, replayer: Replayer): StageContext<S> {
  const { graph } = context;
  return {
    ...context,
    get position() {
      return context.position;
    },
    get state() {
      return context.state;
    },
    now: () => replayer.now(),
    async step(name, fn, options) {
      await replayer.supply(name);
      return await context.step(name, fn, options);
    },
    async effect(spec) {
      await replayer.supplyRecorded(PUBLISH_CONSENT);
      const { stageAttempt } = context.position;
      const approval = approvalStep(approvalOf(spec, stageAttempt.number));
      await replayer.supplyRecorded(approval);
      const { steps } = context.position.stageAttempt;
      if (steps[PUBLISH_CONSENT] !== "stop" && steps[approval] !== "stop") await replayer.supply(effectStep(spec));
      return await context.effect(spec);
    },
    async agent(call) {
      await replayer.supplyCall(call);
      return await context.agent(call);
    },
    async sideWorktree(name) {
      await replayer.supply(name);
      return await context.sideWorktree(name);
    },
    async mergeSideWorktree(name, params) {
      await replayer.supply(name);
      return await context.mergeSideWorktree(name, params);
    },
    async dropSideWorktree(sideWorktree) {
      await replayer.supply(dropStep(sideWorktree));
      await context.dropSideWorktree(sideWorktree);
    },
    async sleep(name, milliseconds) {
      await replayer.supply(name);
      await context.sleep(name, milliseconds);
    },
    async decide(question) {
      await replayer.supplyRecorded(decisionStep(question));
      return await context.decide(question);
    },
    async restoreFiles(name, params) {
      await replayer.supply(name);
      return await context.restoreFiles(name, params);
    },
    async record(name, event) {
      await replayer.supplyEvent(name, capture(event));
      return await context.record(name, event);
    },
    graph: {
      ...graph,
      moveOnce: (name, ...events) => replayer.execute(name, () => graph.moveOnce(name, ...events)),
    },
  };
}

const NO_RECORD = { field: "record", expected: null, actual: "none of this call" } as const;

/** A failed attempt as it was recorded. Stages decide by its code. */
function recordedFailure(came: { readonly reason: string; readonly code: string | null }): Error {
  const code = ERROR_CODES.find((known) => known === came.code);
  const error = code === undefined ? new Error(came.reason) : new HoldfastError({ code, message: came.reason });
  failures.add(error);
  return error;
}

export function isRecordedFailure(error: unknown): boolean {
  return error instanceof Error && failures.has(error);
}

const failures = new WeakSet<Error>();

// One execution of a stage function, and its steps: plain steps, and steps that change files.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { runMark, snapshotParams } from "./adapters.ts";
import { belongsToGraph } from "./graph-state.ts";
import type { NewEntry, StepFailed, StepFinished, StepStarted } from "./journal.ts";
import type { Json } from "./json.ts";
import { reasonOf } from "./progress.ts";
import { appendAll, restoreRunFiles } from "./restore-files.ts";
import type { RunSession } from "./run-session.ts";
import { own, rebaseRunning } from "./state.ts";
import { capture } from "./values.ts";
import type { StepOptions, StepScope } from "./workflow.ts";

/** One execution of a stage function in this process: the steps that it requested, and its calls in flight. */
export class StageExecution {
  readonly runSession: RunSession;
  readonly stage: string;
  /** Prefix of the mark of every process of its steps. */
  readonly mark: string;
  /** Side worktrees that it requested, by name. */
  readonly sideWorktrees = new Map<string, OpenSideWorktree>();
  /** What the user was asked about after calls: digests of changes in the main checkout, and unknown usage. */
  readonly asked = new Set<string>();
  readonly #asked = new Set<string>();
  /**
   * Steps that were finished before this process loaded the run and are not requested yet. Steps of ended graph nodes are not included,
   * because they are never requested again.
   */
  readonly #unasked: Set<string>;
  #active = 0;
  #closed = false;
  #waiting: (() => void)[] = [];
  #turn: Promise<unknown> = Promise.resolve();

  constructor(runSession: RunSession) {
    this.runSession = runSession;
    this.stage = runSession.state.position.stage;
    this.mark = `${runMark(runSession.adapters, runSession.run.id)}/${runSession.attempt.number}/`;
    const { graph = false, steps } = runSession.state.position.stageAttempt;
    const isOwn = (step: string): boolean => !step.startsWith(RECHECK) && (!graph || !belongsToGraph(step));
    this.#unasked = new Set(Object.keys(steps).filter(isOwn));
  }

  /** The result of a finished step; undefined: the caller must execute it. */
  claim(name: string): Json | undefined {
    this.check();
    if (this.#asked.has(name)) throw askedTwice(this.stage, name);
    const result = own(this.runSession.attempt.steps, name);
    if (result === undefined) {
      checkStepName(name);
      // This is a safe point only if no other step is in flight.
      if (this.#active === 0) this.runSession.halt.checkWish();
    } else this.#unasked.delete(name);
    this.#asked.add(name);
    return result;
  }

  /** The result of a step that may be requested more than once; undefined: it is not finished. */
  recall(name: string): Json | undefined {
    this.#unasked.delete(name);
    return own(this.runSession.attempt.steps, name);
  }

  /** After a failed try the name may be requested again. */
  unclaim(name: string): void {
    this.#asked.delete(name);
  }

  /** The entry that ends a step of this stage attempt. The keys are in canonical order, so that the store need not sort them. */
  finished(step: string, { recorded, ...body }: Omit<StepFinished, "stageAttempt" | "step">): NewEntry {
    const { number: stageAttempt } = this.runSession.attempt;
    const { result, spent } = body;
    return {
      kind: "step.finished",
      body:
        recorded === undefined
          ? { result, spent, stageAttempt, step }
          : { recorded, result, spent, stageAttempt, step },
    };
  }

  /** The entry of a failed try. */
  failed(step: string, body: Omit<StepFailed, "stageAttempt" | "step">): NewEntry {
    return { kind: "step.failed", body: { stageAttempt: this.runSession.attempt.number, step, ...body } };
  }

  /** Rejects new calls once work must stop. */
  check(): void {
    this.runSession.halt.check();
    this.open();
  }

  /** A call in flight may still write its result, until the stage has ended. */
  open(): void {
    if (!this.#closed) return;
    throw (
      this.runSession.halt.cause ??
      usageError(
        `Stage ${this.stage} of run ${this.runSession.run.id} is over and its context is used still`,
        "Wait for everything that the stage started before it returns.",
      )
    );
  }

  enter(): void {
    this.#active += 1;
  }

  leave(): void {
    this.#active -= 1;
    if (this.#active === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async busy<T>(work: () => Promise<T>): Promise<T> {
    this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Performs work that leaves no result, such as a note. Before the last finished step of a resumed stage it was already done. */
  async busyOnce(work: () => Promise<unknown>): Promise<void> {
    this.check();
    if (this.#unasked.size === 0) await this.busy(work);
  }

  /** Serializes work on the folders of side worktrees and their merges. */
  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return await done;
  }

  /** Resolves when no call is in flight. */
  async idle(): Promise<void> {
    if (this.#active > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  close(): void {
    this.#closed = true;
  }

  /** Throws WORKFLOW_CHANGED when the stage concluded without steps that it had finished: its code differs from the code that began it. */
  checkAsked(): void {
    if (this.#unasked.size === 0) return;
    const names = [...this.#unasked];
    throw new HoldfastError({
      code: "WORKFLOW_CHANGED",
      message: `Stage ${this.stage} of run ${this.runSession.run.id} concluded without steps that it had finished: ${names.join(", ")}`,
      hint: "Its function has changed while it was under way, or depends on something that is no step. Bring the old code back, or restore the checkpoint at which the stage began.",
      retry: "ask",
      data: { stage: this.stage, steps: names },
    });
  }
}

/** A side worktree that this stage execution opened. */
export interface OpenSideWorktree {
  readonly name: string;
  readonly base: string;
  /**
   * Its commit when no call is in flight: that of the last call that the stage attempt finished in it, otherwise the base. The call counts
   * even before the stage requests it again.
   */
  commit: string;
  /** Whether its folder is still the one in which a call was interrupted, or had ended, when the last process died. */
  readonly isKept: boolean;
  /** Name of the call that works in it; null: none. */
  busy: string | null;
}

/** Prefix of a question whose reason may be gone when the stage runs again, so that the stage need not ask it again. */
export const RECHECK = "recheck:";

/** The name becomes part of a child process's environment. */
const STEP_NAME = /^[^\p{C}]{1,200}$/u;

function checkStepName(name: string): void {
  if (STEP_NAME.test(name)) return;
  throw usageError(`${JSON.stringify(name)} cannot name a step`, "Use 1 to 200 characters without control characters.");
}

function askedTwice(stage: string, name: string): HoldfastError {
  return usageError(
    `Stage ${stage} asks for step ${JSON.stringify(name)} twice in one stage attempt`,
    "Give each step a name of its own; number those of a loop.",
    { stage, step: name },
  );
}

type Work = (scope: StepScope) => Promise<Json> | Json;

/** Executes a plain step: one commit with one entry, after its work. A step that was begun and lost has changed nothing that counts. */
export async function runStep(
  execution: StageExecution,
  name: string,
  work: Work,
  options?: StepOptions,
): Promise<Json> {
  const { runSession } = execution;
  const known = execution.claim(name);
  if (known !== undefined) {
    if (runSession.listening)
      runSession.emit({ kind: "step_finished", step: name, replayed: true, ...titled(options) });
    return known;
  }
  execution.enter();
  try {
    if (options?.risk !== undefined)
      await saveBefore(runSession, { trigger: "before_risky", name: options.risk, entries: () => [] });
    if (options?.changesFiles === true)
      return await runFileStep(execution, name, { work, artifacts: options.artifacts ?? [], ...titled(options) });
    if (runSession.listening) runSession.emit({ kind: "step_started", step: name, ...titled(options) });
    let result: Json;
    try {
      result = capture(await work(scopeOf(execution, name)));
    } catch (error) {
      throw await failStep(execution, name, error);
    }
    execution.open();
    await runSession.append(execution.finished(name, { result, spent: null }));
    if (runSession.listening) runSession.emit({ kind: "step_finished", step: name, replayed: false });
    return result;
  } finally {
    execution.leave();
  }
}

async function runFileStep(
  execution: StageExecution,
  name: string,
  { work, artifacts, title }: { readonly work: Work; readonly artifacts: readonly string[]; readonly title?: string },
): Promise<Json> {
  const { runSession } = execution;
  await beginStep(execution, name, { files: true, estimate: null }, title);
  let result: Json;
  try {
    result = capture(await withTimer(execution, () => Promise.resolve(work(scopeOf(execution, name)))));
  } catch (error) {
    throw await failStep(execution, name, error);
  }
  execution.open();
  await runSession.save({
    trigger: (await areComplete(runSession, artifacts)) ? "artifact_complete" : "automatic",
    name,
    prepare: () => [execution.finished(name, { result, spent: null })],
    change: (planes, { sequence }) => rebaseRunning(planes, sequence),
  });
  if (runSession.listening) runSession.emit({ kind: "step_finished", step: name, replayed: false });
  return result;
}

async function areComplete(
  { adapters, workspace }: StageExecution["runSession"],
  artifacts: readonly string[],
): Promise<boolean> {
  if (workspace === undefined || artifacts.length === 0 || !adapters.checkpoints.artifactComplete) return false;
  const outputs = adapters.outputs(workspace.root);
  for (const path of artifacts) if ((await outputs.read(path)) === null) return false;
  return true;
}

/** Writes the start durably before the work: if a start has no end, the files may be half-done. */
export async function beginStep(
  execution: StageExecution,
  name: string,
  params: Pick<StepStarted, "files" | "estimate" | "counted" | "sent" | "sideWorktree">,
  title?: string,
): Promise<void> {
  const { runSession } = execution;
  const body: StepStarted = { stageAttempt: runSession.attempt.number, step: name, ...params };
  if (params.files) runSession.fileSteps += 1;
  await runSession.append({ kind: "step.started", body });
  if (runSession.listening) runSession.emit({ kind: "step_started", step: name, ...titled({ title }) });
}

/** The member of an event that says what a step does. Absent if the step has no title. */
export function titled(options: { readonly title?: string | undefined } | undefined): { readonly title?: string } {
  return options?.title === undefined ? {} : { title: options.title };
}

/** Records a failed try and returns what to throw. Aborted work has not failed: it is as after a crash. */
export async function failStep(execution: StageExecution, name: string, error: unknown): Promise<unknown> {
  const { runSession } = execution;
  if (runSession.halt.cause !== undefined) return runSession.halt.cause;
  execution.open();
  const reason = reasonOf(error);
  const step = own(runSession.attempt.running, name);
  const spent = step?.estimate ?? null;
  const code = error instanceof HoldfastError ? { code: error.code } : {};
  const finish = (): readonly NewEntry[] => [execution.failed(name, { reason, spent, ...code })];
  if (step?.files === true && !(await movedBranch(execution, step.base))) {
    await restoreRunFiles(runSession, { to: step.base, trigger: "error_recovery", why: `${name} failed`, finish });
  } else {
    await runSession.append(...finish());
  }
  execution.unclaim(name);
  if (runSession.listening) runSession.emit({ kind: "step_failed", step: name, reason, retryAt: null });
  return error;
}

/**
 * Whether the branch's head moved. The engine's steps that move the branch do so atomically and may be repeated. The old files under the
 * new head would look like changes that undo it.
 */
export async function movedBranch(
  execution: { readonly runSession: StageExecution["runSession"] },
  base: number,
): Promise<boolean> {
  const { workspace, adapters, run } = execution.runSession;
  if (workspace === undefined) return false;
  const { planes } = await adapters.store.getCheckpoint({ run: run.id, sequence: base });
  const { head } = await workspace.look(snapshotParams(adapters));
  return planes.files !== null && planes.files.head !== head;
}

export function markOf(execution: StageExecution, name: string): string {
  return execution.mark + name;
}

export function attemptOf(execution: StageExecution, name: string): number {
  return (own(execution.runSession.state.position.stageAttempt.failures, name) ?? 0) + 1;
}

function scopeOf(execution: StageExecution, name: string): StepScope {
  return {
    signal: execution.runSession.halt.signal,
    attempt: attemptOf(execution, name),
    mark: markOf(execution, name),
  };
}

/**
 * Saves the state before an action that may be irreversible: a push, a rebase, a call to an external service. If a checkpoint already has
 * that state, none is taken, and the entries name the existing one. `entries` are in the same commit, so that a kill leaves both or
 * neither.
 */
export async function saveBefore(
  runSession: RunSession,
  params: {
    readonly trigger: "before_risky" | "before_external";
    readonly name: string;
    /** Gets the sequence of the checkpoint before the action; null: checkpoints are off, or a step is changing files. */
    readonly entries: (before: number | null) => readonly NewEntry[];
  },
): Promise<void> {
  const { trigger, name, entries } = params;
  const { checkpoints } = runSession.adapters;
  const isOn = trigger === "before_risky" ? checkpoints.beforeRisky : checkpoints.beforeExternal;
  // A step that is changing files now has half-done files: a checkpoint of them could not be restored.
  const isQuiet = runSession.placing === 0 && !Object.values(runSession.attempt.running).some(({ files }) => files);
  if (!isOn || !isQuiet) return await appendAll(runSession, entries(null));
  if (!runSession.state.unsaved && !(await filesChanged(runSession)))
    return await appendAll(runSession, entries(runSession.state.sequence));
  await runSession.save({ trigger, name: nameOf(name), prepare: ({ sequence }) => entries(sequence) });
}

async function filesChanged({ workspace, state, adapters }: RunSession): Promise<boolean> {
  const { files } = state;
  if (workspace === undefined || files === null) return false;
  const { tree, head, branch } = await workspace.look(snapshotParams(adapters));
  return tree !== files.tree || head !== files.head || branch !== files.branch;
}

const NAME_CHARACTERS = 100;

/** Targets are the user's texts; a name is one line. */
function nameOf(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed();
}

/**
 * While `work` runs, checkpoints are taken by timer and on request. `before` updates what they contain. When this returns, no checkpoint is
 * being taken.
 */
export async function withTimer<T>(
  execution: StageExecution,
  work: () => Promise<T>,
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<T> {
  const { runSession } = execution;
  let brought = Promise.resolve();
  const bring = (): Promise<void> => {
    brought = before();
    return brought;
  };
  runSession.beforeSave.add(bring);
  try {
    return await work();
  } finally {
    runSession.beforeSave.delete(bring);
    // Anything it would still fetch is older than what is known at the end of the work.
    await brought.catch(() => undefined);
    await runSession.quiet();
  }
}

// One execution of a stage function in this process: the steps it requested, its calls in flight, its waits and its budget.

import { HoldfastError } from "@holdfast/platform/error";
import { runMark } from "./adapters.ts";
import type { AgentUsage } from "./agent.ts";
import { NOTHING, type Resource, assumedUsage, costOf, exceeded, priceOf, reserve, usedText } from "./budget.ts";
import { belongsToGraph } from "./graph-state.ts";
import type { NewEntry, RunContinued, RunWaiting, StepFailed, StepFinished } from "./journal.ts";
import { type Json, isJsonObject } from "./json.ts";
import type { Amounts, Budget } from "./position.ts";
import { Stopped } from "./progress.ts";
import type { RunSession } from "./run-session.ts";
import { own } from "./state.ts";

/** One execution of a stage function in this process: the steps that it requested, and its calls in flight. */
export class StageExecution {
  readonly runSession: RunSession;
  readonly stage: string;
  /** Prefix of the mark of every process of its steps. */
  readonly mark: string;
  /** Side worktrees that it requested, by name. */
  readonly asides = new Map<string, OpenAside>();
  /** Digests of changes in the main checkout that the user was asked about. */
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
    this.mark = `${runMark(runSession.parts, runSession.run.id)}/${runSession.attempt.number}/`;
    const { graph = false, steps } = runSession.state.position.visit;
    const isOwn = (step: string): boolean => !step.startsWith(RECHECK) && (!graph || !belongsToGraph(step));
    this.#unasked = new Set(Object.keys(steps).filter(isOwn));
  }

  /** The stage is still repeating finished steps, so notes and checkpoints here were already made. */
  get replaying(): boolean {
    return this.#unasked.size > 0;
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
  finished(step: string, { recorded, ...body }: Omit<StepFinished, "visit" | "step">): NewEntry {
    const { number: visit } = this.runSession.attempt;
    const { result, spent } = body;
    return {
      kind: "step.finished",
      body: recorded === undefined ? { result, spent, step, visit } : { recorded, result, spent, step, visit },
    };
  }

  /** The entry of a failed try. */
  failed(step: string, body: Omit<StepFailed, "visit" | "step">): NewEntry {
    return { kind: "step.failed", body: { visit: this.runSession.attempt.number, step, ...body } };
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
      new HoldfastError({
        code: "USAGE",
        message: `Stage ${this.stage} of run ${this.runSession.run.id} is over and its context is used still`,
        hint: "Wait for everything that the stage started before it returns.",
      })
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
export interface OpenAside {
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
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(name)} cannot name a step`,
    hint: "Use 1 to 200 characters without control characters.",
  });
}

function askedTwice(stage: string, name: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} asks for step ${JSON.stringify(name)} twice in one visit`,
    hint: "Give each step a name of its own; number those of a loop.",
    data: { stage, step: name },
  });
}

/**
 * Makes the run wait, in one commit: the reason, the time, and a checkpoint. With the checkpoint, a resume can distinguish later changes
 * from the run's own. `prepare` adds entries to the same commit.
 */
export async function startWaiting(
  execution: StageExecution,
  waiting: RunWaiting,
  prepare: () => readonly NewEntry[] = () => [],
): Promise<never> {
  const { runSession } = execution;
  execution.check();
  checkUntil(waiting.until);
  await execution.busy(() =>
    runSession.save({
      trigger: "session_end",
      name: `waiting for ${waiting.for}`,
      prepare: () => [...prepare(), waitingEntry(waiting)],
    }),
  );
  const { for: what, reason, until } = waiting;
  const outcome = { kind: "waiting", for: what, reason, until } as const;
  runSession.tell(outcome);
  const stopped = new Stopped(outcome, { saved: true });
  runSession.halt.stop(stopped);
  throw stopped;
}

export function waitingEntry({ for: what, reason, until, decision }: RunWaiting): NewEntry {
  const body = { for: what, reason, until };
  return { kind: "run.waiting", body: decision === undefined ? body : { ...body, decision } };
}

export function continuedEntry(body: RunContinued): NewEntry {
  return { kind: "run.continued", body: { ...body } };
}

function checkUntil(until: string | null): void {
  if (until === null || Number.isFinite(Date.parse(until))) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(until)} is not a time to wait until`,
    hint: "Give an ISO 8601 time, or null.",
  });
}

/**
 * The resources that the estimate would exceed; null: the call may start. Its `step.started` entry reserves the estimate, in the same turn.
 */
export function exceededBy({ budget }: RunSession, estimate: Amounts): readonly Resource[] | null {
  const reservation = reserve(budget, estimate);
  return reservation.kind === "exceeded" ? reservation.resources : null;
}

/** Called before a wait: a wait uses up time and nothing else. */
export async function waitForTimeBudget(execution: StageExecution): Promise<void> {
  if (exceeded(execution.runSession.budget).includes("milliseconds")) await waitForBudget(execution, ["milliseconds"]);
}

export async function waitForBudget(execution: StageExecution, resources: readonly Resource[]): Promise<never> {
  return await startWaiting(execution, {
    for: "budget",
    reason: usedUp(execution.runSession.budget, resources),
    until: null,
  });
}

/** Why a run waits for its budget. */
export function usedUp(budget: Budget, resources: readonly Resource[]): string {
  return `The budget is used up: ${resources.map((one) => usedText(budget, one)).join(", ")}`;
}

/** What to hold for a call that was cut off and whose usage is unknown. Null: the run has no limit that depends on it. */
export async function assumeUnknown(runSession: RunSession): Promise<Amounts | null> {
  const { limit } = runSession.budget;
  if (limit.tokens === null && limit.microUsd === null) return null;
  let largest = NOTHING;
  for await (const { body } of runSession.parts.store.readJournal({ run: runSession.run.id })) {
    const { spent } = body;
    if (!isJsonObject(spent)) continue;
    const { tokens, microUsd } = spent;
    largest = {
      ...largest,
      tokens: Math.max(largest.tokens, typeof tokens === "number" ? tokens : 0),
      microUsd: Math.max(largest.microUsd, typeof microUsd === "number" ? microUsd : 0),
    };
  }
  return assumedUsage(limit, largest);
}

/** Prices the usage by the agent's own report, or else by the price table; an unknown price remains null. */
export function priced(runSession: RunSession, usage: AgentUsage, who: Paid): AgentUsage {
  return { ...usage, microUsd: costOf(usage, priceOf(runSession.parts.prices, who.agent, who.model)) };
}

/** An unknown amount counts as a call without a price or without tokens, never as zero. Time belongs to the run, not to the call. */
export function spentOf({ inputTokens, outputTokens, microUsd }: AgentUsage): Amounts {
  return {
    tokens: whole((inputTokens ?? 0) + (outputTokens ?? 0)),
    microUsd: whole(microUsd ?? 0),
    milliseconds: 0,
    ...(microUsd === null ? { unpriced: 1 } : {}),
    ...(inputTokens === null && outputTokens === null ? { uncounted: 1 } : {}),
  };
}

interface Paid {
  readonly agent: string;
  readonly model: string | null;
}

/**
 * A limit on an unknown amount cannot be enforced. The notice is given once per run, with the limits that still apply. Call it before the
 * call is settled: the first call without a price gives the notice.
 */
export function limitNotice(budget: Budget, usage: AgentUsage, who: Paid): string | null {
  const { limit, spent } = budget;
  const { inputTokens, outputTokens, microUsd } = usage;
  if (limit.microUsd !== null && microUsd === null && (spent.unpriced ?? 0) === 0) {
    const name = who.model === null ? `${who.agent} with its default model` : `${who.agent}:${who.model}`;
    const others = [...(limit.tokens === null ? [] : ["tokens"]), ...(limit.milliseconds === null ? [] : ["time"])];
    const rest =
      others.length > 0
        ? `the limit on ${others.join(" and ")} holds`
        : "nothing else limits this run: set budget.maxTokens or budget.maxTime";
    return `The limit on money cannot be kept: what ${name} costs is not known (see \`prices\` in the config); ${rest}`;
  }
  if (limit.tokens !== null && inputTokens === null && outputTokens === null && (spent.uncounted ?? 0) === 0)
    return `The limit on tokens cannot be kept: ${who.agent} does not tell what a call took`;
  return null;
}

function whole(amount: number): number {
  return Number.isFinite(amount) ? Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount))) : 0;
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

// A run's position in its workflow, with the stage attempt, the counters and the errors of its calls. What is not in it does not survive a
// crash.

import { type GraphEvent, isWaiting, readyNodes, stateOf, tryName } from "./graph-state.ts";
import type { Graph } from "./graph.ts";
import {
  type Digest,
  type Json,
  type TypeOf,
  anyOf,
  count,
  dictionary,
  list,
  nullable,
  object,
  optional,
  text,
} from "./json.ts";
import { checkArgument } from "./options.ts";

/** The complete position of a run in its workflow: what is not here does not survive a crash. */
export interface Position {
  readonly workflow: string;
  /** Hash of the workflow definition; null for runs without one (library use). */
  readonly definition: Digest | null;
  readonly stage: string;
  /** 1-based; 0 before the first implementation round. */
  readonly iteration: number;
  readonly attempts: Readonly<Record<string, number>>;
  readonly streaks: Readonly<Record<string, number>>;
  readonly score: number | null;
  /** The checkpoint with the best score. `run`: the run that has it, if a fork inherited it; absent: this run. */
  readonly best: { readonly run?: string; readonly sequence: number; readonly score: number } | null;
  readonly graph: Graph | null;
  readonly budget: Budget;
  /** Text for the next prompt. */
  readonly feedback: string | null;
  /** Why the run entered this stage, in plain words; null at the start. */
  readonly reason: string | null;
  readonly stageAttempt: StageAttempt;
  /** Seed of the nonces in this run's prompts (createFence in workflow.ts). Absent in older runs without nonces. */
  readonly fence?: string;
  /** The user has allowed agents to act without asking from now on. Absent: the workflow's options decide. */
  readonly yolo?: boolean;
}

/** A type and not an interface, so that it can be written into journal entries. */
export type Amounts = {
  readonly tokens: number;
  /** Millionths of a US dollar, so that money is an integer. */
  readonly microUsd: number;
  readonly milliseconds: number;
  /** Calls whose price is unknown: their cost is not in `microUsd`. Absent: none. */
  readonly unpriced?: number;
  /** Calls whose token usage is unknown: they are not in any sum and do not count as zero. Absent: none. */
  readonly uncounted?: number;
};

export interface Budget {
  readonly spent: Amounts;
  readonly reserved: Amounts;
  /** Counts against the limits for calls that were cut off and whose usage is unknown. It is an assumption, so it is not in `spent`. */
  readonly held?: Amounts;
  /** null: no limit. */
  readonly limit: { readonly [K in "tokens" | "microUsd" | "milliseconds"]: number | null };
}

/**
 * One execution of a stage, from entering it to its transition. It is part of the position, so a checkpoint in the middle of a stage
 * contains the finished steps. After a restore or fork the stage function runs again, and finished steps answer from here.
 */
export interface StageAttempt {
  /**
   * How many stages the run has entered, this one included; 0 before the first. It bounds a workflow that never ends. A run never reuses a
   * number, not even after a restore: effects are identified by it.
   */
  readonly number: number;
  /** Results of the steps that this stage attempt has finished, by name. */
  readonly steps: Readonly<Record<string, Json>>;
  /** Failed tries of steps that are not finished, by name. A restart must not reset these counts. */
  readonly failures: Readonly<Record<string, number>>;
  /** Steps that have started and not ended. A checkpoint that names one was taken in its middle, so its files may be half-done. */
  readonly running?: Readonly<Record<string, RunningStep>>;
  /**
   * Sessions of unfinished agent calls, by step, for agents that can resume them. Null: none can be resumed; the next try begins a fresh
   * session with a handover of the work so far.
   */
  readonly sessions?: Readonly<Record<string, string | null>>;
  /** This stage attempt set the position's graph; otherwise the graph is from an earlier attempt. */
  readonly graph?: boolean;
  /**
   * Events that steps recorded and that are not in the values yet, oldest first. Only the workflow can reduce them, and the process that
   * wrote this position did not have it.
   */
  readonly unreduced?: readonly Json[];
  /** The side worktree of each unfinished agent call that uses one. Its half-done work is there, not in the run's own files. */
  readonly sideWorktrees?: Readonly<Record<string, string>>;
  /**
   * Agent calls that died with their process, by step, until their cost is known or they start again. Their reserved amounts count as
   * spent.
   */
  readonly lost?: Readonly<Record<string, RunningStep>>;
  /** What the failed tries of unfinished agent calls have led to, by step. */
  readonly errors?: Readonly<Record<string, CallErrors>>;
  /**
   * Checkpoint `of` was taken while only calls ran that must not change files here, and its files differ from those of `at`. `at` is the
   * newest checkpoint whose files come from calls that may change them. In any other checkpoint this field was copied to, it has no
   * meaning.
   */
  readonly settled?: { readonly of: number; readonly at: number };
}

export interface RunningStep {
  readonly files: boolean;
  /** Amounts reserved for the step; null when it is not an agent call. */
  readonly estimate: Amounts | null;
  /** Newest checkpoint that contains nothing of this step: its files are restored to it. */
  readonly base: number;
  /** Tokens in the agent's own session record when the call began: only what exceeds them belongs to this call. */
  readonly counted?: RecordTokens;
  /** The continuation that the session got instead of the call's prompt: a finished turn is found by it. */
  readonly sent?: string;
  /** The usage of this interrupted agent call is already in the budget: the next process does not count it again. */
  readonly settled?: boolean;
}

/**
 * Steps in flight whose files go back to where they began. An agent call that continues its session, or whose result is stored, keeps its
 * files.
 */
export function interruptedSteps(
  { running = {}, sessions = {} }: Pick<StageAttempt, "running" | "sessions">,
  isAnswered: (step: string) => boolean,
): readonly (readonly [string, RunningStep])[] {
  return Object.entries(running).filter(
    ([name, step]) => step.files && !Object.hasOwn(sessions, name) && !isAnswered(name),
  );
}

export const tokensShape = object({ input: count, output: count });
export type RecordTokens = TypeOf<typeof tokensShape>;

export const NO_ATTEMPT: StageAttempt = { number: 0, steps: {}, failures: {} };

/**
 * Starts a stage attempt under a number that no effect has. It keeps the steps in flight, whose files are still to be restored, and the
 * events that are still to be reduced.
 */
export function nextAttempt({ number, running, unreduced }: StageAttempt): StageAttempt {
  return {
    number: number + 1,
    steps: {},
    failures: {},
    ...(running === undefined ? {} : { running }),
    ...(unreduced === undefined ? {} : { unreduced }),
  };
}

/** What the failed tries of one call have led to so far. It is part of the stage attempt, so a resume neither forgets a try nor restarts a wait. */
export const callErrorsShape = object({
  /** Failed tries since the current agent was chosen, by the rule that decided on them. */
  counts: dictionary(count),
  /** Agents that replaced the call's own, as `provider:model`; the last one is in use. */
  agents: list(text),
  /** Time of the next try; null: at once. The wait is at most `delayMs` from the decision. */
  retryAt: nullable(text),
  delayMs: count,
  /** The earliest time that a provider named for itself; null: none did. */
  until: nullable(text),
  /** The decision to end the run, with its reason. The run may not have ended yet. */
  abort: optional(text),
});
export type CallErrors = TypeOf<typeof callErrorsShape>;

/** Which rule decided what about a failed try, and why. */
export const verdictShape = object({
  rule: text,
  action: anyOf(["retry", "fresh", "fallback", "wait", "escalate", "abort"]),
  why: text,
});
export type ErrorVerdict = TypeOf<typeof verdictShape>;

export const NO_ERRORS: CallErrors = { counts: {}, agents: [], retryAt: null, delayMs: 0, until: null };

/** How long a try must still wait, in milliseconds. After a clock was set back it is at most the whole delay. */
export function restOfDelay({ retryAt, delayMs }: CallErrors, now: number): number {
  return retryAt === null ? 0 : Math.max(0, Math.min(delayMs, Date.parse(retryAt) - now));
}

/** The agent that replaces the call's own; undefined: none does. */
export function fallbackOf(errors: CallErrors | undefined): string | undefined {
  return errors?.agents.at(-1);
}

/** Formats a verdict for people. */
export function verdictText({ rule, action, why }: ErrorVerdict): string {
  return `${action} by rule ${rule}: ${why}`;
}

/** A user who restores or forks a run has seen why it ended: the counts remain, and the call is tried again. */
export function forgetAborts(stageAttempt: StageAttempt): StageAttempt {
  const { errors } = stageAttempt;
  if (errors === undefined) return stageAttempt;
  const entries = Object.entries(errors).map(([step, { abort: _over, ...rest }]) => [step, rest] as const);
  return { ...stageAttempt, errors: Object.fromEntries(entries) };
}

/** Attempts and streaks by the name of their guard. They live in the position, so they survive a resume. */
export type Counters = Readonly<Record<string, number>>;

/** A name may be any text, even "__proto__"; a name that was never counted is zero. */
export function counterOf(counters: Counters, name: string): number {
  return Object.hasOwn(counters, name) ? (counters[name] ?? 0) : 0;
}

export function bump(counters: Counters, name: string): Counters {
  return { ...counters, [name]: Math.min(Number.MAX_SAFE_INTEGER, counterOf(counters, name) + 1) };
}

/** Resets only the named counters: other guards keep theirs. */
export function reset(counters: Counters, ...names: readonly string[]): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([name]) => !names.includes(name)));
}

type Best = Position["best"];

/** The best checkpoint so far. Of equal scores the earliest wins: the same score later is not progress. */
export function betterOf(best: Best, next: { readonly sequence: number; readonly score: number | null }): Best {
  if (next.score === null || !Number.isFinite(next.score)) return best;
  const better = best === null || next.score > best.score;
  return better ? { sequence: next.sequence, score: next.score } : best;
}

/**
 * What a crash makes of the nodes that were running. A node with recorded steps and none in flight continues, since the journal has all of
 * its work. The others become pending or unknown, depending on what they declared.
 */
export function recoveryEvents(position: Pick<Position, "graph" | "stageAttempt">, at: string): readonly GraphEvent[] {
  const { graph, stageAttempt } = position;
  if (graph === null || stageAttempt.graph !== true) return [];
  return graph.nodes.flatMap(({ id }): readonly GraphEvent[] => {
    const state = stateOf(graph, id);
    if (state.status !== "running" && state.status !== "queued") return [];
    return [{ kind: "recover", node: id, at, ...(isKnown(stageAttempt, tryName(id, state)) ? { known: true } : {}) }];
  });
}

function isKnown(stageAttempt: StageAttempt, name: string): boolean {
  const { steps, failures, sessions = {}, running = {} } = stageAttempt;
  const isOwn = (step: string): boolean => step === name || step.startsWith(`${name}/`);
  if (Object.hasOwn(steps, name)) return true;
  if (Object.keys(running).some(isOwn)) return false;
  return [steps, failures, sessions].some((steps) => Object.keys(steps).some(isOwn));
}

/**
 * The node at which work continues, as an id, which remains valid however the graph grows. A running or unknown node, else the first that
 * may start, else the first that waits; null when none is left.
 */
export function resumePoint(graph: Graph): string | null {
  checkArgument("resumePoint()", "the graph", graph, "object");
  for (const name of ["nodes", "edges"] as const) checkArgument("resumePoint()", name, graph[name], "list");
  checkArgument("resumePoint()", "states", graph.states, "object");
  const underWay = graph.nodes.find(({ id }) => ["running", "unknown"].includes(stateOf(graph, id).status));
  if (underWay !== undefined) return underWay.id;
  const [ready] = readyNodes(graph, { limit: 1 });
  return ready ?? graph.nodes.find(({ id }) => isWaiting(stateOf(graph, id)))?.id ?? null;
}

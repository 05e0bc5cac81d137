import { type GraphEvent, isWaiting, readyNodes, stateOf, tryName } from "./graph-state.ts";
import type { Graph } from "./graph.ts";
import {
  type Digest,
  type Json,
  type Shape,
  count,
  dictionary,
  list,
  nullable,
  object,
  oneOf,
  optional,
  text,
} from "./json.ts";

/** Where a run stands in its workflow, complete: what is not here does not survive a crash. */
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
  readonly best: { readonly sequence: number; readonly score: number } | null;
  readonly graph: Graph | null;
  readonly budget: Budget;
  /** What the next prompt must be told. */
  readonly feedback: string | null;
  /** Why the run came into this stage, in plain words; null at the start. */
  readonly reason: string | null;
  readonly visit: StageAttempt;
  /** What the nonces in this run's prompts are derived from (createFence in workflow.ts). Absent in runs of before there were any. */
  readonly fence?: string;
  /** The user has answered that agents may act without asking from now on. Absent: as the workflow's options say. */
  readonly yolo?: boolean;
}

/** A type and no interface: it is written into journal entries as it is. */
export type Amounts = {
  readonly tokens: number;
  /** Millionths of a US dollar, so that money is an integer. */
  readonly microUsd: number;
  readonly milliseconds: number;
  /** Calls whose price nobody knows: what they cost is not in `microUsd`. Absent: none. */
  readonly unpriced?: number;
  /** Calls whose tokens are unknown: they are in no sum, and not zero. Absent: none. */
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
 * One stay in a stage, from entering it to its transition. It is part of the position, so a checkpoint taken in the
 * middle of a stage (after an agent call, by a timer, by Ctrl+C) knows what was finished: restored or forked, the stage
 * function runs again and every finished step answers from here.
 */
export interface StageAttempt {
  /**
   * How many stages the run has entered, this one included; 0 before the first. Bounds a workflow that never ends. Never
   * given twice in a run, not even after a restore: effects are told apart by it.
   */
  readonly number: number;
  /** Results of the steps that this visit has finished, by name. */
  readonly steps: Readonly<Record<string, Json>>;
  /** Failed tries of steps not finished yet, by name: their own budget, which a restart must not refill. */
  readonly failures: Readonly<Record<string, number>>;
  /** Steps begun and not ended. A checkpoint that names one was taken in its middle: its files are half of it. */
  readonly running?: Readonly<Record<string, RunningStep>>;
  /**
   * Sessions of agent calls not finished yet, by step, of agents that can go on with them. null: none that can be gone on with; the next try
   * begins a fresh one, which is handed over what was done.
   */
  readonly sessions?: Readonly<Record<string, string | null>>;
  /** The position's graph was set by this visit; else it is what an earlier one left. */
  readonly graph?: boolean;
  /**
   * Events that steps recorded and that are not in the values yet, oldest first: only the workflow can take them in, and
   * whoever wrote this position did not have it.
   */
  readonly unreduced?: readonly Json[];
  /** Agent calls not finished yet that work aside, and the aside of each: their half work is there, not in the run's own files. */
  readonly asides?: Readonly<Record<string, string>>;
  /** Agent calls that died with their process, by step, until it is known what they took or they start again. Their reserved amounts count as spent. */
  readonly lost?: Readonly<Record<string, RunningStep>>;
  /** What failed tries of agent calls not finished yet have come to, by step. */
  readonly errors?: Readonly<Record<string, CallErrors>>;
  /**
   * Checkpoint `of` was taken while only calls worked that are to change nothing here, and its files are others than those of `at`, the newest that are what
   * those left who may change them. In any other checkpoint that this was copied to, it says nothing.
   */
  readonly settled?: { readonly of: number; readonly at: number };
}

export interface RunningStep {
  readonly files: boolean;
  /** Set aside for it; null for a step that is no agent call. */
  readonly estimate: Amounts | null;
  /** Newest checkpoint that holds nothing of it: where its files go back to. */
  readonly base: number;
  /** Tokens that stood in the agent's own record of the session when the call began: what is there beyond them is this call's. */
  readonly counted?: RecordTokens;
  /** An interrupted agent call whose usage is in the budget already: the next process does not count it again. */
  readonly settled?: boolean;
}

export type RecordTokens = { readonly input: number; readonly output: number };

export const NO_ATTEMPT: StageAttempt = { number: 0, steps: {}, failures: {} };

/**
 * A stay of its own, under a number that no effect has. What was in the middle of something is still to be put back, and events that nobody has
 * taken in yet are still to be.
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

/**
 * What failed tries of one call have come to so far. Part of the visit, so that a resume neither forgets a try nor begins a wait anew. A type and no
 * interface: it is written into journal entries as it is.
 */
export type CallErrors = {
  /** Failed tries since the agent in hand was taken, by the rule that decided on them. */
  readonly counts: Readonly<Record<string, number>>;
  /** Agents that were taken instead of the call's own, as `provider:model`; the last one works now. */
  readonly agents: readonly string[];
  /** The next try is not before this time, and never later than so long after it was decided; null: at once. */
  readonly retryAt: string | null;
  readonly delayMs: number;
  /** The earliest time that a provider named for itself; null: none did. */
  readonly until: string | null;
  /** Decided, and perhaps not yet done: the run ends. */
  readonly abort?: string;
};

/** Which rule decided what about a failed try, and why. */
export type ErrorVerdict = {
  readonly rule: string;
  readonly action: "retry" | "fresh" | "fallback" | "park" | "escalate" | "abort";
  readonly why: string;
};

export const NO_ERRORS: CallErrors = { counts: {}, agents: [], retryAt: null, delayMs: 0, until: null };

/** How long a try must still wait. A clock that was set back makes it the whole time, never more. */
export function restOfDelay({ retryAt, delayMs }: CallErrors, now: number): number {
  return retryAt === null ? 0 : Math.max(0, Math.min(delayMs, Date.parse(retryAt) - now));
}

/** Who works on the call; undefined: the one that it names itself. */
export function fallbackOf(errors: CallErrors | undefined): string | undefined {
  return errors?.agents.at(-1);
}

/** For people. */
export function verdictText({ rule, action, why }: ErrorVerdict): string {
  return `${action} by rule ${rule}: ${why}`;
}

export const callErrorsShape: Shape<CallErrors> = object<CallErrors>({
  counts: dictionary(count),
  agents: list(text),
  retryAt: nullable(text),
  delayMs: count,
  until: nullable(text),
  abort: optional(text),
});

export const verdictShape: Shape<ErrorVerdict> = object<ErrorVerdict>({
  rule: text,
  action: oneOf<ErrorVerdict["action"]>({
    retry: true,
    fresh: true,
    fallback: true,
    park: true,
    escalate: true,
    abort: true,
  }),
  why: text,
});

/** Whoever goes back by hand, or forks, has seen why the run ended: what was counted stands, and the call is tried. */
export function forgetAborts(visit: StageAttempt): StageAttempt {
  const { errors } = visit;
  if (errors === undefined) return visit;
  const entries = Object.entries(errors).map(([step, { abort: _over, ...rest }]) => [step, rest] as const);
  return { ...visit, errors: Object.fromEntries(entries) };
}

/** Attempts and streaks by the name of their guard. They live in the position, so they survive a resume. */
export type Counters = Readonly<Record<string, number>>;

/** Names may be any text, "__proto__" too: a name that was never counted is at zero. */
export function counterOf(counters: Counters, name: string): number {
  return Object.hasOwn(counters, name) ? (counters[name] ?? 0) : 0;
}

export function bump(counters: Counters, name: string): Counters {
  return { ...counters, [name]: Math.min(Number.MAX_SAFE_INTEGER, counterOf(counters, name) + 1) };
}

/** Only the named ones: what another guard has counted is not ours to forget. */
export function reset(counters: Counters, ...names: readonly string[]): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([name]) => !names.includes(name)));
}

type Best = Position["best"];

/** The best so far. Of equals the earliest stays: a later one with the same score is no progress worth moving for. */
export function betterOf(best: Best, next: { readonly sequence: number; readonly score: number | null }): Best {
  if (next.score === null || !Number.isFinite(next.score)) return best;
  const better = best === null || next.score > best.score;
  return better ? { sequence: next.sequence, score: next.score } : best;
}

/**
 * What a death makes of the nodes that were running: none vanishes. One that has begun steps, none of which was under way,
 * has left nothing that the journal does not know: it goes on from there. The others are pending again or unknown, by
 * what they declared.
 */
export function recoveryEvents(position: Pick<Position, "graph" | "visit">, at: string): readonly GraphEvent[] {
  const { graph, visit } = position;
  if (graph === null || visit.graph !== true) return [];
  return graph.nodes.flatMap(({ id }): readonly GraphEvent[] => {
    const state = stateOf(graph, id);
    if (state.status !== "running" && state.status !== "queued") return [];
    return [{ kind: "recover", node: id, at, ...(isKnown(visit, tryName(id, state)) ? { known: true } : {}) }];
  });
}

function isKnown(visit: StageAttempt, name: string): boolean {
  const { steps, failures, sessions = {}, running = {} } = visit;
  const isOwn = (step: string): boolean => step === name || step.startsWith(`${name}/`);
  if (Object.hasOwn(steps, name)) return true;
  if (Object.keys(running).some(isOwn)) return false;
  return [steps, failures, sessions].some((steps) => Object.keys(steps).some(isOwn));
}

/**
 * The node at which work goes on: an id, which means the same however the graph grew since, and no place in a numbering.
 * One that runs or is unknown, else the first that may start, else the first that waits; null when nothing is left.
 */
export function resumePoint(graph: Graph): string | null {
  const underWay = graph.nodes.find(({ id }) => ["running", "unknown"].includes(stateOf(graph, id).status));
  if (underWay !== undefined) return underWay.id;
  const [ready] = readyNodes(graph, { limit: 1 });
  return ready ?? graph.nodes.find(({ id }) => isWaiting(stateOf(graph, id)))?.id ?? null;
}

// The state of a ralph run, its events and the reducer, and what its stages share.

import type { Adapters } from "@holdfast/core/adapters";
import {
  type Json,
  type JsonObject,
  type TypeOf,
  count,
  flag,
  list,
  nullable,
  object,
  optional,
  parseShape,
  text,
  variants,
} from "@holdfast/core/json";
import type { StageContext } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { TEMPLATES_SHAPE, type Templates } from "../prompts.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import {
  ANSWER_SHAPE,
  BEST_SHAPE,
  FAILING_SHAPE,
  FINDING_SHAPE,
  ITERATION_SHAPE,
  type Iteration,
  REFLECTION_SHAPE,
  VERIFICATION_SHAPE,
} from "./iteration.ts";
import { type RalphOptions, type Unit, planUnits } from "./options.ts";

export const MAX_ITERATIONS = 500;
export const MAX_FINDINGS = 50;
export const MAX_LEARNINGS = 30;
const MAX_INTERVENTIONS = 50;
export const MAX_REFUSED = 20;

export const initialRalphState: RalphState = {
  loopId: null,
  unit: 0,
  tries: 0,
  iterations: [],
  totals: { iterations: 0, passed: 0, failed: 0, tokens: 0, microUsd: 0, milliseconds: 0 },
  mostTests: 0,
  lastFailing: null,
  answer: null,
  verification: null,
  memory: [],
  learnings: [],
  best: null,
  findings: [],
  interventions: [],
  refused: [],
  began: null,
  base: null,
  pushed: null,
  pullRequest: null,
};

/** Throws STORE_CORRUPT with the path of the invalid field. */
export function parseRalphState(values: JsonObject): RalphState {
  return parseShape({ shape: STATE, value: values, what: "The state of a ralph run" });
}

const LEARNING_SHAPE = object({ iteration: count, text });
/** A learning of the agent, stored once. Repeating it only updates its iteration. */
export type Learning = TypeOf<typeof LEARNING_SHAPE>;

const INTERVENTION_SHAPE = variants("kind", {
  answered: object({ at: count, answer: text }),
  rolled_back: object({ at: count, to: count }),
});
/** What was done about a stuck loop. Detection considers only iterations after `at`. */
export type Intervention = TypeOf<typeof INTERVENTION_SHAPE>;

/**
 * Where the loop's work starts and where it is published; set by stages. Names that refer to the outside are the same in
 * every workflow.
 */
const REPOSITORY = {
  /** The commit on which the loop began; its own commits follow. null before it has begun. */
  began: nullable(text),
  /** Only for a run that ends in a pull request; otherwise null. */
  base: nullable(object({ branch: text, commit: text })),
  pushed: nullable(text),
  pullRequest: nullable(object({ number: count, url: text })),
} as const;

const STATE = object({
  ...REPOSITORY,
  /** null before `begun`. */
  loopId: nullable(text),
  /** Index into planUnits(options) of the current unit; their count if all are done. */
  unit: count,
  /** Reflected iterations of the current unit. */
  tries: count,
  /** The newest iterations, oldest first, at most MAX_ITERATIONS. */
  iterations: list(ITERATION_SHAPE),
  /** Sums over all iterations, including those no longer listed. What the agent did not report is not included. */
  totals: object({
    iterations: count,
    /** Iterations with the verdict passed, or failed. */
    passed: count,
    failed: count,
    tokens: count,
    microUsd: count,
    milliseconds: count,
  }),
  /** Highest number of tests that any verification ran: fewer tests are not progress. */
  mostTests: count,
  /** What failed in the last checked iteration of this unit; null: there is none. */
  lastFailing: nullable(FAILING_SHAPE),
  /** Of the current iteration; until it answers, of the previous one. */
  answer: nullable(ANSWER_SHAPE),
  verification: nullable(VERIFICATION_SHAPE),
  /** At most the configured capacity, oldest iteration first. */
  memory: list(REFLECTION_SHAPE),
  learnings: list(LEARNING_SHAPE),
  best: nullable(BEST_SHAPE),
  /**
   * The newest findings, oldest first, at most MAX_FINDINGS. Those of the last iteration become warnings in the next
   * prompt.
   */
  findings: list(FINDING_SHAPE),
  interventions: list(INTERVENTION_SHAPE),
  /** Events that did not fit the state. They changed nothing else, and these records make them visible. */
  refused: list(object({ event: text, why: text })),
  templates: optional(TEMPLATES_SHAPE),
});
/** The values of a ralph loop: everything that is not in its position (stage, iteration, attempts, budget). */
export type RalphState = Omit<TypeOf<typeof STATE>, "templates"> & {
  /** The prompt templates in force, fixed when the loop began. Absent: the built-in ones. */
  readonly templates?: Templates;
};
export type RepositoryState = Pick<RalphState, keyof typeof REPOSITORY>;

/** Reduces an event as the journal has it. */
export function reduceRecorded(state: RalphState, event: Json): RalphState {
  return reduceRalph(state, parseRalphEvent(event));
}

/** Throws STORE_CORRUPT with the path of the invalid field. */
export function parseRalphEvent(event: Json): RalphEvent {
  return parseShape({ shape: EVENT, value: event, what: "An event of a ralph run" });
}

const EVENT = variants("kind", {
  begun: object({ loopId: text }),
  /** Recorded by `iterate` after the agent's call. */
  answered: object({ answer: ANSWER_SHAPE }),
  /** Recorded by `verify` after the last check (see readVerification). */
  verified: object({ verification: VERIFICATION_SHAPE }),
  /** Recorded by `reflect` with the result of planReflection. Memory, learnings and best replace the previous ones. */
  reflected: object({
    iteration: ITERATION_SHAPE,
    /** Whether the unit is done, so that the next one becomes current. */
    unitDone: flag,
    memory: list(REFLECTION_SHAPE),
    learnings: list(LEARNING_SHAPE),
    best: nullable(BEST_SHAPE),
    findings: list(FINDING_SHAPE),
  }),
  /** Recorded when the user answered or the files were rolled back. */
  intervened: object({ intervention: INTERVENTION_SHAPE }),
});
/**
 * Every event that changes a loop's values. Each is JSON and is stored in the journal unchanged and complete. Reducing
 * needs no options, so a limit raised between two processes does not change the past.
 */
export type RalphEvent = TypeOf<typeof EVENT>;

/**
 * Applies one event; pure and total. An event that does not fit changes only `refused`, where it is visible. A repeated
 * event changes nothing. Every list remains bounded, however long the run.
 */
export function reduceRalph(state: RalphState, event: RalphEvent): RalphState {
  switch (event.kind) {
    case "begun":
      return begin(state, event.loopId);
    case "answered":
      return answer(state, event);
    case "verified":
      return verify(state, event);
    case "reflected":
      return reflect(state, event);
    case "intervened":
      return intervene(state, event);
  }
}

type Event<K extends RalphEvent["kind"]> = Extract<RalphEvent, { readonly kind: K }>;

/** A loop keeps its first id. */
function begin(state: RalphState, loopId: string): RalphState {
  if (state.loopId === loopId) return state;
  if (state.loopId !== null) return refuse(state, "begun", `the loop is ${state.loopId} already`);
  return { ...state, loopId };
}

/**
 * The same iteration may answer again after an interruption or a restore. The newest answer counts and invalidates the
 * verification of the old one.
 */
function answer(state: RalphState, event: Event<"answered">): RalphState {
  const last = lastNumber(state);
  if (event.answer.number <= last) return refuse(state, event.kind, `iteration ${last} is reflected already`);
  return { ...state, answer: event.answer, verification: null };
}

function verify(state: RalphState, event: Event<"verified">): RalphState {
  const { number, metrics } = event.verification;
  if (state.answer?.number !== number || number <= lastNumber(state))
    return refuse(state, event.kind, `iteration ${number} is not the one at hand`);
  const { tests } = metrics;
  const seen = tests === null ? 0 : tests.passed + tests.failed;
  return { ...state, verification: event.verification, mostTests: Math.max(state.mostTests, seen) };
}

function reflect(state: RalphState, event: Event<"reflected">): RalphState {
  const { iteration, unitDone, memory, learnings, best, findings } = event;
  if (iteration.number <= lastNumber(state)) return state;
  if (state.verification?.number !== iteration.number)
    return refuse(state, event.kind, `iteration ${iteration.number} is not verified`);
  return {
    ...state,
    unit: unitDone ? state.unit + 1 : state.unit,
    tries: unitDone ? 0 : state.tries + 1,
    iterations: [...state.iterations, iteration].slice(-MAX_ITERATIONS),
    totals: addTo(state.totals, iteration),
    lastFailing: unitDone ? null : failingAfter(state, iteration),
    memory,
    learnings,
    best,
    findings: [...state.findings, ...findings].slice(-MAX_FINDINGS),
  };
}

/** A check that could not run says nothing, so the last known failures remain. */
function failingAfter({ verification, lastFailing }: RalphState, { verdict }: Iteration): RalphState["lastFailing"] {
  return verdict === "not_run" || verification === null ? lastFailing : verification.metrics.failing;
}

function intervene(state: RalphState, event: Event<"intervened">): RalphState {
  const { intervention } = event;
  if (state.interventions.some((one) => one.at === intervention.at && one.kind === intervention.kind)) return state;
  return {
    ...state,
    tries: 0,
    interventions: [...state.interventions, intervention].slice(-MAX_INTERVENTIONS),
  };
}

function addTo(totals: RalphState["totals"], { verdict, spent, milliseconds }: Iteration): RalphState["totals"] {
  return {
    iterations: totals.iterations + 1,
    passed: totals.passed + (verdict === "passed" ? 1 : 0),
    failed: totals.failed + (verdict === "failed" ? 1 : 0),
    tokens: totals.tokens + (spent.tokens ?? 0),
    microUsd: totals.microUsd + (spent.microUsd ?? 0),
    milliseconds: totals.milliseconds + milliseconds,
  };
}

function lastNumber(state: RalphState): number {
  return state.iterations.at(-1)?.number ?? 0;
}

function refuse(state: RalphState, event: string, why: string): RalphState {
  return { ...state, refused: [...state.refused, { event, why }].slice(-MAX_REFUSED) };
}

/** Dependencies of every ralph stage. */
export interface RalphDependencies {
  readonly options: RalphOptions;
  readonly adapters: Adapters;
}

export type RalphContext = StageContext<RalphState>;

/** Records an event once per stage attempt. */
export async function recordEvent(context: RalphContext, event: RalphEvent): Promise<void> {
  await context.record(event.kind, event);
}

/** The current unit. Throws INTERNAL if all units are done, because no working stage follows then. */
export function currentUnit({ options }: RalphDependencies, { state }: RalphContext): Unit {
  const unit = planUnits(options)[state.unit];
  if (unit !== undefined) return unit;
  throw new HoldfastError({ code: "INTERNAL", message: "A loop continued although all of its work is done" });
}

/** Output files for people and agents; the run's state never depends on them. */
export const outputFiles = {
  issue: (issue: number) => `${OUTPUT_DIRECTORY}/issue-${issue}.md`,
  prompt: (iteration: number) => `${OUTPUT_DIRECTORY}/ralph-prompt-${iteration}.md`,
  /** `check` starts at 1. */
  check: (iteration: number, check: number) => `${OUTPUT_DIRECTORY}/ralph-check-${iteration}-${check}.txt`,
  report: `${OUTPUT_DIRECTORY}/ralph-report.md`,
} as const;

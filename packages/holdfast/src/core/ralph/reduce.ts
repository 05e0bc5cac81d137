import type { RalphEvent } from "./event.ts";
import { MAX_FINDINGS, MAX_INTERVENTIONS, MAX_ITERATIONS, MAX_REFUSED } from "./state.ts";
import type { RalphState, Totals } from "./state.ts";
import type { Iteration } from "./iteration.ts";

/**
 * One event further; pure and total. What does not fit changes nothing but `refused`, where it can be seen. What says again what is so already
 * changes nothing at all. Every list stays bounded, however long the run.
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

/** A loop keeps the id that it was first given. */
function begin(state: RalphState, loopId: string): RalphState {
  if (state.loopId === loopId) return state;
  if (state.loopId !== null) return refuse(state, "begun", `the loop is ${state.loopId} already`);
  return { ...state, loopId };
}

/** The same iteration may answer again (it was cut off, or files went back): the newest stands, and what was verified of the old is void. */
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

/** A check that could not be carried out says nothing: what failed before is still the last that is known. */
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

function addTo(totals: Totals, { verdict, spent, milliseconds }: Iteration): Totals {
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

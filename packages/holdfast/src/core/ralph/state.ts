import type { JsonObject } from "../json.ts";
import { count, list, nullable, object, oneOf, parseShape, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { FINDING_SHAPE } from "./finding.ts";
import type { LoopFinding } from "./finding.ts";
import { ANSWER_SHAPE, BEST_SHAPE, ITERATION_SHAPE, REFLECTION_SHAPE, VERIFICATION_SHAPE } from "./iteration.ts";
import type { Answer, BestIteration, Iteration, Reflection, Verification } from "./iteration.ts";
import { FAILING_SHAPE } from "./metrics.ts";
import type { Failing } from "./metrics.ts";

/** Something the agent found out, kept once: said again, it only becomes younger. */
export type Learning = { readonly iteration: number; readonly text: string };

/** What was done about a loop that was stuck. Detection looks only at what came after `at`. */
export type Intervention =
  | { readonly kind: "answered"; readonly at: number; readonly answer: string }
  | { readonly kind: "rolled_back"; readonly at: number; readonly to: number };

/** An event that did not fit the state it met. It changed nothing, and it is not hidden. */
export type RefusedEvent = { readonly event: string; readonly why: string };

/** Of all iterations, also of those that are no longer listed. What the agent did not say is not in the sums. */
export type Totals = {
  readonly iterations: number;
  /** Iterations whose verdict was passed, or failed. */
  readonly passed: number;
  readonly failed: number;
  readonly tokens: number;
  readonly microUsd: number;
  readonly milliseconds: number;
};

/** The values of a ralph run: all that is not in its position (stage, iteration, attempts, budget). */
export type RalphState = {
  /** null before `begun`. */
  readonly loopId: string | null;
  /** Index into planUnits(options) of the unit to work on; their number when all are done. */
  readonly unit: number;
  /** Reflected iterations of that unit. */
  readonly tries: number;
  /** The newest, oldest first, at most MAX_ITERATIONS. */
  readonly iterations: readonly Iteration[];
  readonly totals: Totals;
  /** Most tests that any verification ran: fewer of them is no progress. */
  readonly mostTests: number;
  /** What failed in the last reflected iteration of this unit; null: there is none, or its checks gave no answer. */
  readonly lastFailing: Failing | null;
  /** Of the iteration in hand, and until the next one answers, of the last. */
  readonly answer: Answer | null;
  readonly verification: Verification | null;
  /** Never more than the capacity of the options, oldest iteration first. */
  readonly memory: readonly Reflection[];
  readonly learnings: readonly Learning[];
  readonly best: BestIteration | null;
  /** The newest, oldest first, at most MAX_FINDINGS. Those of the last iteration are the warnings of the next prompt. */
  readonly findings: readonly LoopFinding[];
  readonly interventions: readonly Intervention[];
  readonly refused: readonly RefusedEvent[];
};

export const MAX_ITERATIONS = 500;
export const MAX_FINDINGS = 50;
export const MAX_LEARNINGS = 30;
export const MAX_INTERVENTIONS = 50;
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
};

/** STORE_CORRUPT with the path of what is wrong. */
export function parseRalphState(values: JsonObject): RalphState {
  return parseShape({ shape: STATE, value: values, what: "The state of a ralph run" });
}

export const LEARNING_SHAPE: Shape<Learning> = object<Learning>({ iteration: count, text });

type Intervened<K extends Intervention["kind"]> = Extract<Intervention, { readonly kind: K }>;

export const INTERVENTION_SHAPE: Shape<Intervention> = tagged<Intervention, "kind">("kind", {
  answered: object<Intervened<"answered">>({ kind: oneOf<"answered">({ answered: true }), at: count, answer: text }),
  rolled_back: object<Intervened<"rolled_back">>({
    kind: oneOf<"rolled_back">({ rolled_back: true }),
    at: count,
    to: count,
  }),
});

const STATE: Shape<RalphState> = object<RalphState>({
  loopId: nullable(text),
  unit: count,
  tries: count,
  iterations: list(ITERATION_SHAPE),
  totals: object<Totals>({
    iterations: count,
    passed: count,
    failed: count,
    tokens: count,
    microUsd: count,
    milliseconds: count,
  }),
  mostTests: count,
  lastFailing: nullable(FAILING_SHAPE),
  answer: nullable(ANSWER_SHAPE),
  verification: nullable(VERIFICATION_SHAPE),
  memory: list(REFLECTION_SHAPE),
  learnings: list(LEARNING_SHAPE),
  best: nullable(BEST_SHAPE),
  findings: list(FINDING_SHAPE),
  interventions: list(INTERVENTION_SHAPE),
  refused: list(object<RefusedEvent>({ event: text, why: text })),
});

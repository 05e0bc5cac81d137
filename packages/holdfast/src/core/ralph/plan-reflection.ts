import { HoldfastError } from "../error.ts";
import type { Budget } from "../position/position.ts";
import { bestOf } from "./best.ts";
import { detect } from "./detect.ts";
import type { RalphEvent } from "./event.ts";
import type { Answer, Iteration, Reflection, Verification } from "./iteration.ts";
import { mergeLearnings } from "./merge-learnings.ts";
import type { RalphOptions } from "./options.ts";
import { dimensionsOf, qualityOf } from "./quality.ts";
import { reflectionText } from "./reflection-text.ts";
import { remember } from "./remember.ts";
import { failingDigest } from "./signature.ts";
import type { RalphState } from "./state.ts";
import { planUnits } from "./units.ts";

type Reflected = Extract<RalphEvent, { readonly kind: "reflected" }>;

/**
 * Pure. What is to be remembered of the iteration that was answered and verified, as the event that says so: its summary, the memory with
 * it, the best iteration, what is wrong with the course of the loop. INTERNAL when there is no such iteration.
 */
export function planReflection(params: {
  readonly state: RalphState;
  readonly options: RalphOptions;
  /** The position's own, after this iteration was paid. */
  readonly budget: Budget;
}): Reflected {
  const { state, options, budget } = params;
  const { answer, verification } = atHand(state);
  const iteration = summarise({ state, options, answer, verification });
  const { failing } = verification.metrics;
  const { number, unit, verdict, quality, tree } = iteration;
  const next = reflectionOn({ state, answer, verification, iteration });
  return {
    kind: "reflected",
    iteration,
    unitDone: verdict === "passed" || (verdict === "unchecked" && answer.outcome === "completed"),
    memory: remember({ memory: state.memory, next, options: options.memory }),
    learnings: mergeLearnings(state.learnings, { iteration: number, texts: answer.learnings }),
    best: bestOf(state.best, { iteration: number, unit, verdict, quality, tree, failing }),
    findings: detect({
      iterations: [...state.iterations, iteration],
      failing,
      best: state.best,
      interventions: state.interventions,
      detection: options.detection,
      budget,
    }),
  };
}

function summarise(params: {
  readonly state: RalphState;
  readonly options: RalphOptions;
  readonly answer: Answer;
  readonly verification: Verification;
}): Iteration {
  const { state, options, answer, verification } = params;
  const { tests, errors, warnings, failing } = verification.metrics;
  const planned = planUnits(options)[answer.unit]?.checks.length ?? 0;
  const dimensions = dimensionsOf({
    answer,
    verification,
    planned,
    mostTests: state.mostTests,
    tokensPerIteration: options.tokensPerIteration,
  });
  return {
    number: answer.number,
    unit: answer.unit,
    unitName: answer.unitName,
    outcome: answer.outcome,
    verdict: verification.verdict,
    quality: qualityOf(dimensions, options.qualityWeights),
    tests,
    errors,
    warnings,
    spent: answer.spent,
    milliseconds: verification.checks.reduce((sum, check) => sum + check.milliseconds, answer.milliseconds),
    filesChanged: answer.filesChanged,
    signature: verification.signature,
    failingDigest: failingDigest(failing),
    tree: answer.tree,
  };
}

const MOST_FAILING = 30;

function reflectionOn(params: {
  readonly state: RalphState;
  readonly answer: Answer;
  readonly verification: Verification;
  readonly iteration: Iteration;
}): Reflection {
  const { state, answer, verification, iteration } = params;
  const previous = state.iterations.findLast((one) => one.unit === iteration.unit);
  const before =
    previous === undefined || state.lastFailing === null ? null : { iteration: previous, failing: state.lastFailing };
  return {
    iteration: iteration.number,
    unitName: iteration.unitName,
    verdict: iteration.verdict,
    quality: iteration.quality,
    text: reflectionText({ answer, verification, quality: iteration.quality, before }),
    learnings: answer.learnings,
    signature: iteration.signature,
    failing: verification.metrics.failing.names.slice(0, MOST_FAILING),
    lastSeen: iteration.number,
  };
}

function atHand({ answer, verification, iterations }: RalphState): {
  readonly answer: Answer;
  readonly verification: Verification;
} {
  const last = iterations.at(-1)?.number ?? 0;
  if (answer !== null && verification !== null && answer.number === verification.number && answer.number > last)
    return { answer, verification };
  throw new HoldfastError({
    code: "INTERNAL",
    message: "A ralph run came to reflect on an iteration that was not answered and verified",
  });
}

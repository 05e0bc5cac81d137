import type { Budget } from "../position/position.ts";
import type { LoopFinding } from "./finding.ts";
import type { Iteration } from "./iteration.ts";

type Measure = Extract<LoopFinding, { readonly kind: "burn_rate" }>["evidence"]["measure"];
const MEASURES = ["tokens", "microUsd", "milliseconds"] as const satisfies readonly Measure[];

/**
 * At what the newest `window` iterations cost, the budget ends before the work does: before quality reaches 100 at the rate of those iterations, or, when they
 * gained nothing, within another such window. Of several budgets the one that ends first is told.
 */
export function detectBurn(params: {
  readonly iterations: readonly Iteration[];
  readonly budget: Budget;
  readonly window: number;
}): LoopFinding | null {
  const run = params.iterations.slice(-params.window);
  if (run.length < params.window) return null;
  const findings = MEASURES.map((measure) => burnOf(measure, run, params.budget)).filter((one) => one !== null);
  return findings.toSorted((a, b) => a.evidence.affordable - b.evidence.affordable)[0] ?? null;
}

function burnOf(
  measure: Measure,
  run: readonly Iteration[],
  { spent, limit }: Budget,
): Extract<LoopFinding, { readonly kind: "burn_rate" }> | null {
  const most = limit[measure];
  const costs = run.map((one) => costOf(one, measure)).filter((cost) => cost !== null);
  const newest = run.at(-1);
  // An average over those that told would be made up for those that did not.
  if (most === null || newest === undefined || costs.length < run.length) return null;
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  if (total === 0) return null;
  const perIteration = total / run.length;
  const left = Math.max(0, most - spent[measure]);
  const affordable = Math.floor(left / perIteration);
  const { gained, needed } = pace(run);
  if (needed === null ? affordable >= run.length : affordable >= needed) return null;
  const evidence = {
    measure,
    perIteration,
    iterations: run.map((one) => one.number),
    left,
    affordable,
    gained,
    perPoint: gained !== null && gained > 0 ? total / gained : null,
    needed,
  };
  return { kind: "burn_rate", iteration: newest.number, sentence: sentenceOf(evidence), evidence };
}

/** The first of the run is where it stood, so it counts one step less than there are iterations. */
function pace(run: readonly Iteration[]): { readonly gained: number | null; readonly needed: number | null } {
  const [first, last] = [run[0]?.quality ?? null, run.at(-1)?.quality ?? null];
  if (first === null || last === null || run.length < 2) return { gained: null, needed: null };
  const gained = last - first;
  if (gained <= 0) return { gained, needed: null };
  return { gained, needed: Math.ceil(((100 - last) * (run.length - 1)) / gained) };
}

function costOf(one: Iteration, measure: Measure): number | null {
  switch (measure) {
    case "tokens":
      return one.spent.tokens;
    case "microUsd":
      return one.spent.microUsd;
    case "milliseconds":
      return one.milliseconds;
  }
}

function sentenceOf(
  evidence: Pick<
    Extract<LoopFinding, { readonly kind: "burn_rate" }>["evidence"],
    "measure" | "perIteration" | "affordable" | "needed"
  >,
): string {
  const { measure, perIteration, affordable, needed } = evidence;
  const enough = `the budget is enough for ${affordable} more`;
  const rate = `At ${amount(measure, perIteration)} an iteration ${enough}`;
  return needed === null ? `${rate}, and the last ones gained nothing` : `${rate}, and at this pace it takes ${needed}`;
}

function amount(measure: Measure, value: number): string {
  switch (measure) {
    case "tokens":
      return `${Math.round(value)} tokens`;
    case "microUsd":
      return `$${(value / 1_000_000).toFixed(value < 10_000 ? 4 : 2)}`;
    case "milliseconds":
      return `${Math.round(value / 1000)} s`;
  }
}

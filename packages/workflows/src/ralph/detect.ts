// Detects loops that do not make progress: stuck, oscillation, regression and burn rate. All decisions are pure.

import type { Budget } from "@holdfast/core/position";
import { oneLine } from "../text.ts";
import type { BestIteration, Failing, Iteration, LoopFinding, TestCounts } from "./iteration.ts";
import type { Detection } from "./options.ts";
import type { Intervention } from "./state.ts";

/**
 * Returns every finding about the loop after its newest iteration; none if that iteration passed. Compares only
 * iterations of the same unit, and for stuck and oscillation only those since the last intervention.
 */
export function detect(params: {
  /** Includes the newest iteration, which is last. */
  readonly iterations: readonly Iteration[];
  /** Why the agent failed in the newest iteration; null: it did not, or said nothing. */
  readonly failure: string | null;
  readonly failing: Failing;
  /** The best iteration before the newest. */
  readonly best: BestIteration | null;
  readonly interventions: readonly Intervention[];
  readonly detection: Detection;
  readonly budget: Budget;
}): readonly LoopFinding[] {
  const { iterations, best, interventions, detection } = params;
  const newest = iterations.at(-1);
  if (newest === undefined || newest.verdict === "passed") return [];
  const unit = iterations.filter((one) => one.unit === newest.unit);
  const since = interventions.at(-1)?.at ?? 0;
  const fresh = unit.filter((one) => one.number > since);
  return [
    detection.stuck === null ? null : detectStuck(fresh, detection.stuck, params.failure),
    detection.oscillation === null ? null : detectOscillation(fresh, detection.oscillation),
    detection.regression === null
      ? null
      : detectRegression({ iterations: unit, best, failing: params.failing, points: detection.regression }),
    detection.burn === null ? null : detectBurn({ iterations: unit, budget: params.budget, window: detection.burn }),
  ].filter((finding) => finding !== null);
}

/**
 * The newest `times` iterations ended with the same failure, and the files after each of them were the same. A failure
 * that names nothing (a check without output) is never the same as another one, so such a loop ends at its limits.
 */
function detectStuck(iterations: readonly Iteration[], times: number, said: string | null): LoopFinding | null {
  const run = iterations.slice(-times);
  const [first] = run;
  const newest = run.at(-1);
  if (first === undefined || newest === undefined || run.length < times) return null;
  const failure = failureOf(newest);
  if (failure === null || !run.every((one) => failureOf(one) === failure)) return null;
  if (!run.slice(1).every((one) => hasFilesOf(one, first))) return null;
  const numbers = run.map((one) => one.number);
  return {
    kind: "stuck",
    iteration: newest.number,
    sentence: stuckSentence(run, `${first.number} to ${newest.number}`, said),
    evidence: { because: "same_failure_same_files", iterations: numbers, common: newest.signature },
  };
}

/** If the agent never answered, that is the cause: the checks only say that nothing was done. */
function stuckSentence(run: readonly Iteration[], numbers: string, said: string | null): string {
  if (run.some((one) => one.outcome === "completed"))
    return `Stuck: iterations ${numbers} failed in the same way with the same files`;
  const why = said === null ? "" : `: ${oneLine(said, MOST_WHY)}`;
  return `Stuck: the agent failed in iterations ${numbers}${why}`;
}

const MOST_WHY = 300;

/** Without a signature, a check that cannot run and an agent that fails unchecked are failures of their own kind. */
function failureOf({ signature, verdict }: Iteration): string | null {
  return signature ?? (verdict === "failed" ? null : verdict);
}

function hasFilesOf(one: Iteration, first: Iteration): boolean {
  return one.tree === null || first.tree === null ? one.filesChanged === 0 : one.tree === first.tree;
}

/**
 * Finds `turns` alternations between the same two states, of the files or of the set of failing tests. Consecutive
 * iterations in one state are one turn. An iteration with an unknown state restarts the count.
 */
function detectOscillation(iterations: readonly Iteration[], turns: number): LoopFinding | null {
  return (
    between("files", turnsOf(iterations, (one) => one.tree).slice(-turns), { iterations, turns }) ??
    between("failing_tests", turnsOf(iterations, (one) => one.failingDigest).slice(-turns), { iterations, turns })
  );
}

interface Turn {
  readonly state: string;
  /** The first iteration of the turn. */
  readonly number: number;
}

function turnsOf(iterations: readonly Iteration[], stateOf: (one: Iteration) => string | null): readonly Turn[] {
  let turns: Turn[] = [];
  for (const one of iterations) {
    const state = stateOf(one);
    if (state === null) turns = [];
    else if (turns.at(-1)?.state !== state) turns.push({ state, number: one.number });
  }
  return turns;
}

function between(
  what: "files" | "failing_tests",
  row: readonly Turn[],
  params: { readonly iterations: readonly Iteration[]; readonly turns: number },
): LoopFinding | null {
  const newest = params.iterations.at(-1);
  const [a, b] = row;
  if (newest === undefined || a === undefined || b === undefined || row.length < params.turns) return null;
  if (row.at(-1)?.number !== newest.number) return null;
  if (!row.every((turn, place) => turn.state === (place % 2 === 0 ? a.state : b.state))) return null;
  const numbers = row.map((turn) => turn.number);
  const noun = what === "files" ? "two states of the files" : "two sets of failing tests";
  return {
    kind: "oscillation",
    iteration: newest.number,
    sentence: `Back and forth between ${noun}: iterations ${numbers.join(", ")}`,
    evidence: { between: what, iterations: numbers, states: [a.state, b.state] },
  };
}

/**
 * The newest iteration is worse than the best one: its quality is lower by `points`, or something fails that did not
 * fail there.
 */
function detectRegression(params: {
  readonly iterations: readonly Iteration[];
  readonly best: BestIteration | null;
  readonly failing: Failing;
  readonly points: number;
}): LoopFinding | null {
  const { iterations, best, points } = params;
  const newest = iterations.at(-1);
  if (newest === undefined || newest.quality === null || best === null || best.unit !== newest.unit) return null;
  const was = iterations.find((one) => one.number === best.iteration)?.tests ?? null;
  const lost = lostSince({ best, failing: params.failing, was, is: newest.tests });
  const below = best.quality - newest.quality;
  if (lost.names.length === 0 && (below <= 0 || below < points)) return null;
  const { iteration, quality } = best;
  const parts = [
    below > 0 ? `quality ${round(newest.quality)} after ${round(quality)} in iteration ${iteration}` : null,
    lost.names.length > 0 ? `what did not fail in iteration ${iteration} fails now: ${listed(lost)}` : null,
  ].filter((part) => part !== null);
  return {
    kind: "regression",
    iteration: newest.number,
    sentence: `Worse than before: ${parts.join("; ")}`,
    evidence: { best: { iteration, quality }, quality: newest.quality, lost },
  };
}

const MOST_LOST = 10;

/**
 * Compares names only if both lists are complete. As many failures as there are new tests may come from those, which is
 * not a loss.
 */
function lostSince(params: {
  readonly best: BestIteration;
  readonly failing: Failing;
  readonly was: TestCounts | null;
  readonly is: TestCounts | null;
}): Failing {
  const { best, failing, was, is } = params;
  const none = { names: [], more: 0 };
  if (best.failing.more > 0 || was === null || is === null) return none;
  const known = new Set(best.failing.names);
  const names = failing.names.filter((name) => !known.has(name));
  const added = Math.max(0, total(is) - total(was));
  if (names.length + failing.more <= added) return none;
  return { names: names.slice(0, MOST_LOST), more: failing.more + Math.max(0, names.length - MOST_LOST) };
}

function total({ passed, failed, skipped }: TestCounts): number {
  return passed + failed + skipped;
}

function listed({ names, more }: Failing): string {
  const shown = names.slice(0, 3).map((name) => oneLine(name, 80));
  const left = names.length - shown.length + more;
  return left > 0 ? `${shown.join(", ")} and ${left} more` : shown.join(", ");
}

function round(quality: number): number {
  return Math.round(quality * 10) / 10;
}

type Measure = Extract<LoopFinding, { readonly kind: "burn_rate" }>["evidence"]["measure"];
const MEASURES = ["tokens", "microUsd", "milliseconds"] as const satisfies readonly Measure[];

/**
 * At the cost of the newest `window` iterations, the budget ends too early. That is: before quality reaches 100 at
 * their pace or, if they gained nothing, within another window. Reports the budget that ends first.
 */
function detectBurn(params: {
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
  // If some iterations reported no cost, an average would be invented for them.
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

/** The first iteration is the starting point, so the number of steps is one less than the number of iterations. */
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

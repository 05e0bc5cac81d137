// Plans the reflection on an iteration: its quality, its summary text, the loop's memory and learnings. All decisions
// are pure.

import type { Budget } from "@holdfast/core/position";
import { HoldfastError } from "@holdfast/platform/error";
import { oneLine } from "../text.ts";
import { detect } from "./detect.ts";
import type { Answer, BestIteration, CheckResult, Failing, Iteration, Reflection, Verification } from "./iteration.ts";
import { DIMENSIONS, type Dimension, type RalphOptions, planUnits } from "./options.ts";
import { type Learning, MAX_LEARNINGS, type RalphEvent, type RalphState } from "./state.ts";
import { failingDigest } from "./verify.ts";

type Reflected = Extract<RalphEvent, { readonly kind: "reflected" }>;

/**
 * Builds the event for an answered and verified iteration: its summary, the new memory, the best iteration and the
 * findings. Throws INTERNAL if there is no such iteration. Pure.
 */
export function planReflection(params: {
  readonly state: RalphState;
  readonly options: RalphOptions;
  /** The position's budget, after the cost of this iteration. */
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
    memory: addReflection({ memory: state.memory, next, options: options.memory }),
    learnings: mergeLearnings(state.learnings, { iteration: number, texts: answer.learnings }),
    best: bestOf(state.best, { iteration: number, unit, verdict, quality, tree, failing }),
    findings: detect({
      iterations: [...state.iterations, iteration],
      failure: answer.outcome === "completed" ? null : answer.failure || answer.cause,
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
    message: "A ralph run reached the reflection of an iteration that was not answered and verified",
  });
}

/**
 * Describes an iteration in factual sentences: what was tried, how it ended, and what changed since the previous one.
 */
function reflectionText(params: {
  readonly answer: Answer;
  readonly verification: Verification;
  readonly quality: number | null;
  /** The previous iteration of the same unit, and what failed then. */
  readonly before: { readonly iteration: Iteration; readonly failing: Failing } | null;
}): string {
  const { answer, verification, quality, before } = params;
  const change = compareFailing(before?.failing ?? null, verification.metrics.failing);
  const lines = [
    tried(answer),
    files(answer.filesChanged),
    ...outcome(verification),
    counts(verification, before?.iteration ?? null),
    named(
      "Now passing",
      verification.metrics.tests === null && verification.verdict !== "passed" ? [] : change.nowPassing,
    ),
    named("Newly failing", change.newlyFailing),
    named(
      before === null ? "Failing" : "Still failing",
      before === null ? verification.metrics.failing.names : change.still,
    ),
    qualityLine(quality, before?.iteration.quality ?? null),
  ];
  return lines.filter((line) => line !== null).join("\n");
}

/** The difference between two lists of failing names. An incomplete list gives no statement about names it may lack. */
interface FailingChange {
  readonly nowPassing: readonly string[];
  readonly newlyFailing: readonly string[];
  readonly still: readonly string[];
}

function compareFailing(before: Failing | null, after: Failing): FailingChange {
  const was = new Set(before?.names);
  const is = new Set(after.names);
  return {
    nowPassing: after.more > 0 ? [] : [...was].filter((name) => !is.has(name)),
    newlyFailing: before === null || before.more > 0 ? [] : after.names.filter((name) => !was.has(name)),
    still: after.names.filter((name) => was.has(name)),
  };
}

const MOST_SAID = 400;
const MOST_NAMED = 8;

function tried(answer: Answer): string {
  if (answer.outcome === "failed") return `The agent did not finish (${answer.cause ?? "unknown cause"}).`;
  return answer.said === "" ? "The agent said nothing." : `Tried: ${oneLine(answer.said, MOST_SAID)}`;
}

function files(changed: number | null): string | null {
  if (changed === null) return null;
  return changed === 0 ? "No file changed." : `${plural(changed, "file")} changed.`;
}

function outcome({ verdict, checks }: Verification): readonly string[] {
  switch (verdict) {
    case "passed":
      return ["Every check passed."];
    case "unchecked":
      return ["There is no check."];
    case "failed":
    case "not_run":
      return checks.filter((check) => !(check.kind === "exited" && check.code === 0)).map(ended);
  }
}

/** How a check that did not pass ended. */
export function ended(check: Pick<CheckResult, "command" | "kind" | "code">): string {
  const command = `\`${oneLine(check.command, 120)}\``;
  switch (check.kind) {
    case "exited":
      return check.code === null ? `${command} was killed.` : `${command} exited with ${check.code}.`;
    case "timed_out":
      return `${command} took too long.`;
    case "interrupted":
      return `${command} was interrupted.`;
    case "not_started":
      return `${command} could not be started.`;
  }
}

function counts({ metrics }: Verification, before: Iteration | null): string | null {
  const { tests, errors } = metrics;
  const parts = [
    tests === null
      ? null
      : `${tests.failed} of ${plural(tests.passed + tests.failed, "test")} fail${since(before?.tests?.failed, tests.failed)}`,
    errors === null ? null : `${plural(errors, "error")} of compilers and linters${since(before?.errors, errors)}`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : `${parts.join("; ")}.`;
}

function since(was: number | null | undefined, is: number): string {
  return was === null || was === undefined || was === is ? "" : ` (before: ${was})`;
}

function named(title: string, names: readonly string[]): string | null {
  if (names.length === 0) return null;
  const shown = names.slice(0, MOST_NAMED).map((name) => oneLine(name, 100));
  const left = names.length - shown.length;
  return `${title}: ${shown.join(", ")}${left > 0 ? ` and ${left} more` : ""}.`;
}

function qualityLine(quality: number | null, before: number | null): string | null {
  if (quality === null) return null;
  const shown = Math.round(quality * 10) / 10;
  return before === null || before === quality
    ? `Quality ${shown}.`
    : `Quality ${shown} (before: ${Math.round(before * 10) / 10}).`;
}

function plural(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** From 0 to 1 each; null: not measured. */
export type Dimensions = Readonly<Record<Dimension, number | null>>;

/**
 * Measures the quality of an iteration from facts alone:
 * - validation: share of the criterion's checks that passed.
 * - completeness: passing tests relative to the most tests that ever ran, so that removing tests is not progress.
 * - correctness: passing tests relative to those that ran.
 * - readability: how few diagnostics compilers and linters report (1 for none, 0.5 for ten errors).
 * - efficiency: allowed tokens relative to those used, at most 1.
 */
export function dimensionsOf(params: {
  readonly answer: Answer;
  readonly verification: Verification;
  readonly planned: number;
  readonly mostTests: number;
  readonly tokensPerIteration: number | null;
}): Dimensions {
  const { answer, verification, planned, mostTests, tokensPerIteration } = params;
  const { tests, errors, warnings } = verification.metrics;
  const ran = tests === null ? 0 : tests.passed + tests.failed;
  const judged = verification.verdict === "passed" || verification.verdict === "failed";
  const yes = verification.checks.filter((check) => check.kind === "exited" && check.code === 0).length;
  const complaints = errors === null && warnings === null ? null : (errors ?? 0) + (warnings ?? 0) / 4;
  return {
    validation: judged && planned > 0 ? Math.min(1, yes / planned) : null,
    completeness: tests === null || ran === 0 ? null : tests.passed / Math.max(mostTests, ran),
    correctness: tests === null || ran === 0 ? null : tests.passed / ran,
    readability: complaints === null ? null : 10 / (10 + complaints),
    efficiency: efficiency(answer.spent.tokens, tokensPerIteration),
  };
}

/** Weighted average of the known dimensions from 0 to 100, rounded to a thousandth; null: none is known. */
export function qualityOf(dimensions: Dimensions, weights: RalphOptions["qualityWeights"]): number | null {
  let [weight, sum] = [0, 0];
  for (const name of DIMENSIONS) {
    const value = dimensions[name];
    if (value === null) continue;
    weight += weights[name];
    sum += weights[name] * value;
  }
  return weight === 0 ? null : Math.round((sum / weight) * 100_000) / 1_000;
}

function efficiency(tokens: number | null, allowed: number | null): number | null {
  if (tokens === null || allowed === null) return null;
  return tokens <= allowed ? 1 : allowed / tokens;
}

/**
 * Returns the better of the two (see BestIteration). An iteration without quality cannot be compared, and another
 * unit's best does not count.
 */
export function bestOf(
  best: BestIteration | null,
  next: Omit<BestIteration, "quality"> & { readonly quality: number | null },
): BestIteration | null {
  const kept = best?.unit === next.unit ? best : null;
  const { quality } = next;
  if (quality === null) return kept;
  const candidate = { ...next, quality };
  if (kept === null) return candidate;
  const rank = Number(candidate.verdict === "passed") - Number(kept.verdict === "passed");
  return rank > 0 || (rank === 0 && candidate.quality > kept.quality) ? candidate : kept;
}

/**
 * Adds a reflection to the memory, which always keeps the new one. The policy decides which one is dropped (see
 * MEMORY_POLICIES). Oldest first.
 */
export function addReflection(params: {
  readonly memory: readonly Reflection[];
  readonly next: Reflection;
  readonly options: RalphOptions["memory"];
}): readonly Reflection[] {
  const { memory, next, options } = params;
  const others = memory
    .filter((one) => one.iteration !== next.iteration)
    .map((one) => (sameFailure(one, next) ? { ...one, lastSeen: Math.max(one.lastSeen, next.iteration) } : one));
  const worth = worthOf(options.policy, next);
  const kept = others
    .toSorted((a, b) => worth(b) - worth(a) || b.iteration - a.iteration)
    .slice(0, options.capacity - 1);
  return [...kept, next].toSorted((a, b) => a.iteration - b.iteration);
}

function worthOf(policy: RalphOptions["memory"]["policy"], next: Reflection): (one: Reflection) => number {
  switch (policy) {
    case "fifo":
      return (one) => one.iteration;
    case "recency":
      return (one) => one.lastSeen;
    case "relevance_weighted":
      return (one) => relevance(one, next);
  }
}

/** The same failure weighs most, then common failing names, then learnings; age decides between equals. */
function relevance(one: Reflection, next: Reflection): number {
  const age = Math.max(0, next.iteration - one.iteration);
  return (
    (sameFailure(one, next) ? 4 : 0) +
    3 * overlap(one.failing, next.failing) +
    (one.learnings.length > 0 ? 1 : 0) +
    1 / (1 + age)
  );
}

function sameFailure(one: Reflection, next: Reflection): boolean {
  return one.signature !== null && one.signature === next.signature;
}

/** Size of the intersection relative to the union. */
function overlap(a: readonly string[], b: readonly string[]): number {
  const either = new Set([...a, ...b]).size;
  const second = new Set(b);
  return either === 0 ? 0 : [...new Set(a)].filter((name) => second.has(name)).length / either;
}

/** A repeated learning counts as new, so that lasting ones are not dropped first. */
export function mergeLearnings(
  known: readonly Learning[],
  next: { readonly iteration: number; readonly texts: readonly string[] },
): readonly Learning[] {
  const merged = new Map(known.map((one) => [keyOf(one.text), one]));
  for (const text of next.texts) {
    merged.delete(keyOf(text));
    merged.set(keyOf(text), { iteration: next.iteration, text });
  }
  return [...merged.values()].slice(-MAX_LEARNINGS);
}

function keyOf(text: string): string {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .join(" ")
    .trim();
}

// The limits of an impl run: which one ended it, and how a resume that raises it continues.

import type { Freshness } from "@holdfast/core/findings";
import type { Json, JsonObject } from "@holdfast/core/json";
import { type Position, counterOf } from "@holdfast/core/position";
import { usageError } from "@holdfast/platform/error";
import type { ChangeLimit } from "../plugin.ts";
import { type ImplOptions, parseImplOptions } from "./options.ts";
import { type LimitName, parseImplState } from "./state.ts";

/** Each limit by its flag. `used`: what the run has counted towards it. */
const LIMITS: Readonly<
  Record<string, { readonly limit: LimitName; readonly used: (position: Position) => number; readonly what: string }>
> = {
  // The first, because a run that continues after another limit may need one more iteration.
  "max-iterations": { limit: "maxIterations", used: ({ iteration }) => iteration, what: "iterations" },
  "max-reviews": { limit: "maxReviews", used: attemptsAt("review"), what: "failed reviews" },
  "max-pr-attempts": { limit: "prAttempts", used: attemptsAt("pr"), what: "failed pull request attempts" },
  "max-rebases": { limit: "rebases", used: attemptsAt("rebase"), what: "rebases" },
  "max-parse-failures": { limit: "parseStreak", used: streakOf("parse"), what: "consecutive parse failures" },
  "max-review-failures": {
    limit: "reviewStreak",
    used: streakOf("review"),
    what: "consecutive reviews without improvement",
  },
  "max-stuck": { limit: "stuck", used: streakOf("stuck"), what: "iterations without progress" },
  "max-simplifications": { limit: "simplifications", used: attemptsAt("simplify"), what: "failed simplifications" },
};

function attemptsAt(stage: string): (position: Position) => number {
  return ({ attempts }) => counterOf(attempts, stage);
}

function streakOf(name: string): (position: Position) => number {
  return ({ streaks }) => counterOf(streaks, name);
}

export const implLimits: Readonly<Record<string, ChangeLimit>> = Object.fromEntries(
  Object.keys(LIMITS).map((flag) => [flag, (params) => changeLimit(flag, params)] as const),
);

/** The options of an imported run with the limits that were typed for its first resume. */
export function withLimits(options: JsonObject, limits: JsonObject): JsonObject {
  let changed = options;
  for (const [flag, value] of Object.entries(limits)) {
    const known = LIMITS[flag];
    if (known !== undefined) changed = withLimit(changed, known.limit, value);
  }
  return changed;
}

/** Sets a limit. A run that stopped at this limit continues where it stopped, with its counters unchanged. */
function changeLimit(flag: string, { run, planes, value }: Parameters<ChangeLimit>[0]): ReturnType<ChangeLimit> {
  const known = LIMITS[flag];
  if (known === undefined) return null;
  const { limit, used, what } = known;
  const { options } = parseImplOptions(planes.config.inputs);
  const { options: raised } = parseImplOptions(withLimit(planes.config.inputs, limit, value));
  const state = parseImplState(planes.context.values);
  const stopped = run.state.kind === "failed" && state.stopped?.limit === limit ? state.stopped : null;
  const [before, now, counted] = [limitOf(options, limit), limitOf(raised, limit), used(planes.position)];
  if (now < counted || (stopped !== null && now === counted))
    throw usageError(
      `Run ${run.id} has used ${counted} of its ${what} already, so --${flag} ${now} allows no more`,
      `Give a number above ${counted}.`,
    );
  if (stopped === null && now === before) return null;
  if (stopped?.stage === "impl" && stopped.iteration > raised.maxIterations)
    throw usageError(
      `Run ${run.id} has used its ${raised.maxIterations} iterations, so --${flag} alone does not continue it`,
      `Add --max-iterations N with a number above ${raised.maxIterations}.`,
    );
  const { stopped: _, ...rest } = state;
  return {
    options: raised,
    ...(stopped === null ? {} : { values: { ...rest, stuckReport: null } }),
    continuesAt: stopped === null ? null : { stage: stopped.stage, iteration: stopped.iteration },
    reason: `The limit is ${now} ${what} instead of ${before}`,
  };
}

function withLimit(options: JsonObject, limit: LimitName, value: Json): JsonObject {
  if (limit === "maxIterations" || limit === "maxReviews") return { ...options, [limit]: value };
  const limits = options["limits"];
  return { ...options, limits: { ...(typeof limits === "object" ? limits : {}), [limit]: value } };
}

function limitOf(options: ImplOptions, limit: LimitName): number {
  return limit === "maxIterations" || limit === "maxReviews" ? options[limit] : options.limits[limit];
}

/** The flag of the limit that ended the run; null: none did. */
export function reachedLimit(values: JsonObject): string | null {
  const { stopped } = parseImplState(values);
  return Object.keys(LIMITS).find((flag) => LIMITS[flag]?.limit === stopped?.limit) ?? null;
}

/** An impl run handles outside changes like every run. Its hint names the flag that raises the limit that ended it. */
export const implFreshness: Freshness = {
  isOwn: () => false,
  judge: () => null,
  relocate: () => null,
  failedHint({ run, values }) {
    const flag = reachedLimit(values);
    return flag === null ? null : `Raise the limit: \`holdfast resume ${run} --${flag} N\`.`;
  },
};

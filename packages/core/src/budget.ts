import { HoldfastError } from "@holdfast/platform/error";
import type { Amounts, Budget } from "./position.ts";

export type Resource = Exclude<keyof Amounts, "unpriced" | "uncounted">;
export const RESOURCES = ["tokens", "microUsd", "milliseconds"] as const satisfies readonly Resource[];
export const NOTHING: Amounts = { tokens: 0, microUsd: 0, milliseconds: 0 };

type Reservation =
  | { readonly kind: "reserved"; readonly budget: Budget; readonly notices: readonly Resource[] }
  /** Nothing was reserved: the run must park. */
  | { readonly kind: "exceeded"; readonly resources: readonly Resource[] };

export function newBudget(limit: Partial<Budget["limit"]> = {}): Budget {
  return {
    spent: NOTHING,
    reserved: NOTHING,
    limit: { tokens: null, microUsd: null, milliseconds: null, ...limit },
  };
}

/**
 * Before an agent call: sets the estimate aside, or says what it would exceed. A call that may begin only uses up
 * what is left; with nothing left none begins. Reaching 80 % for the first time is told once, in `notices`.
 */
export function reserve(budget: Budget, estimate: Amounts): Reservation {
  checkAmounts(estimate);
  const resources = RESOURCES.filter((resource) => {
    const limit = budget.limit[resource];
    const used = usedOf(budget, resource);
    return limit !== null && (used >= limit || add(used, estimate[resource]) > limit);
  });
  if (resources.length > 0) return { kind: "exceeded", resources };
  const after = addReserved(budget, estimate);
  return {
    kind: "reserved",
    budget: after,
    notices: RESOURCES.filter((one) => !isNear(budget, one) && isNear(after, one)),
  };
}

export function addReserved(budget: Budget, estimate: Amounts): Budget {
  return { ...budget, reserved: sum(budget.reserved, estimate) };
}

/** What `amounts` holds beyond `counted`, never less than nothing. */
export function amountsBeyond(amounts: Amounts, counted: Amounts): Amounts {
  return { ...amounts, ...each((resource) => Math.max(0, amounts[resource] - counted[resource])) };
}

/** After the call: the estimate is given back and what it really took is spent, even beyond the limit. */
export function settle(budget: Budget, params: { readonly estimate: Amounts; readonly actual: Amounts }): Budget {
  checkAmounts(params.estimate);
  checkAmounts(params.actual);
  return {
    ...budget,
    spent: sum(budget.spent, params.actual),
    reserved: each((resource) => Math.max(0, budget.reserved[resource] - params.estimate[resource])),
  };
}

/** Time passes by itself, whoever works: nobody reserves it and nobody settles it. */
export function spendTime(budget: Budget, milliseconds: number): Budget {
  return milliseconds === 0 ? budget : settle(budget, { estimate: NOTHING, actual: { ...NOTHING, milliseconds } });
}

/**
 * After a crash: calls under way never told what they took. All that was set aside counts as spent, so that dying and
 * resuming cannot win a run more than its limit.
 */
export function settleLost(budget: Budget): Budget {
  return { ...budget, spent: sum(budget.spent, budget.reserved), reserved: NOTHING };
}

/** The inverse, for one call whose result was found after all: what was reserved for it is reserved again. */
export function reopenLost(budget: Budget, estimate: Amounts): Budget {
  return {
    ...budget,
    spent: { ...budget.spent, ...each((resource) => Math.max(0, budget.spent[resource] - estimate[resource])) },
    reserved: sum(budget.reserved, estimate),
  };
}

/** For a call that was cut off and whose usage is unknown: counts against the limits for as long as the run lasts. */
export function hold(budget: Budget, assumed: Amounts): Budget {
  checkAmounts(assumed);
  return { ...budget, held: sum(budget.held ?? NOTHING, assumed) };
}

/** What counts against a limit: spent, reserved for calls that run, held for calls of unknown usage. */
function usedOf({ spent, reserved, held }: Budget, resource: Resource): number {
  return add(add(spent[resource], reserved[resource]), held?.[resource] ?? 0);
}

/** The assumed tokens of a cut-off call in a run that has no finished call to compare with: about one prompt of a coding agent. */
const FIRST_CALL_TOKENS = 30_000;

/**
 * What a call of unknown usage is assumed to have taken: as much as the largest call of the run so far. Without one, FIRST_CALL_TOKENS, or a tenth of the
 * limit where that is less. Only for limits that there are.
 */
export function assumedUsage(limit: Budget["limit"], largest: Pick<Amounts, "tokens" | "microUsd">): Amounts {
  const tenth = (resource: "tokens" | "microUsd"): number => Math.ceil((limit[resource] ?? 0) / 10);
  const tokens = largest.tokens > 0 ? largest.tokens : Math.min(FIRST_CALL_TOKENS, tenth("tokens"));
  const microUsd = largest.microUsd > 0 ? largest.microUsd : tenth("microUsd");
  return {
    ...NOTHING,
    tokens: limit.tokens === null ? 0 : tokens,
    microUsd: limit.microUsd === null ? 0 : microUsd,
  };
}

/** What has reached its limit. Not empty: the run parks. */
export function exceeded(budget: Budget): readonly Resource[] {
  return RESOURCES.filter((resource) => {
    const limit = budget.limit[resource];
    return limit !== null && add(budget.spent[resource], budget.held?.[resource] ?? 0) >= limit;
  });
}

/** A fork starts with what is spent, not with its parent's calls under way. */
export function forkBudget(budget: Budget): Budget {
  return { ...budget, reserved: NOTHING };
}

/** What a run and its forks have used together: the base once, and what each spent and reserved since it was forked. */
export function shareSpending(params: { readonly base: Budget; readonly forks: readonly Budget[] }): Budget {
  const { base } = params;
  let { spent, reserved } = base;
  let held = base.held ?? NOTHING;
  for (const fork of params.forks) {
    const since = each((resource) => Math.max(0, fork.spent[resource] - base.spent[resource]));
    const unpriced = Math.max(0, (fork.spent.unpriced ?? 0) - (base.spent.unpriced ?? 0));
    const uncounted = Math.max(0, (fork.spent.uncounted ?? 0) - (base.spent.uncounted ?? 0));
    spent = sum(spent, { ...since, unpriced, uncounted });
    reserved = sum(reserved, fork.reserved);
    held = sum(
      held,
      each((resource) => Math.max(0, (fork.held?.[resource] ?? 0) - (base.held?.[resource] ?? 0))),
    );
  }
  return { ...base, spent, reserved, ...(isNothing(held) ? {} : { held }) };
}

/** Resources that have passed 80 % of their limit. */
export function nearLimit(budget: Budget): readonly Resource[] {
  return RESOURCES.filter((resource) => isNear(budget, resource));
}

function isNear(budget: Budget, resource: Resource): boolean {
  const limit = budget.limit[resource];
  return limit !== null && usedOf(budget, resource) >= limit * 0.8;
}

function checkAmounts(amounts: Amounts): void {
  const bad = ([...RESOURCES, "unpriced", "uncounted"] as const).find((one) => !isAmount(amounts[one] ?? 0));
  if (bad === undefined) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `An amount of ${bad} must be a whole number from 0, not ${amounts[bad]}`,
    hint: "Round up what a provider reports as a fraction; money is in millionths of a US dollar.",
  });
}

function isNothing(amounts: Amounts): boolean {
  return RESOURCES.every((resource) => amounts[resource] === 0);
}

function isAmount(amount: number): boolean {
  return Number.isSafeInteger(amount) && amount >= 0;
}

function sum(a: Amounts, b: Amounts): Amounts {
  const unpriced = add(a.unpriced ?? 0, b.unpriced ?? 0);
  const uncounted = add(a.uncounted ?? 0, b.uncounted ?? 0);
  return {
    ...each((resource) => add(a[resource], b[resource])),
    ...(unpriced === 0 ? {} : { unpriced }),
    ...(uncounted === 0 ? {} : { uncounted }),
  };
}

/** Stops at the largest exact integer instead of losing the last digits: a budget must not shrink by rounding. */
function add(a: number, b: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, a + b);
}

function each(amount: (resource: Resource) => number): Amounts {
  return { tokens: amount("tokens"), microUsd: amount("microUsd"), milliseconds: amount("milliseconds") };
}

export function usedText(budget: Budget, resource: Resource): string {
  const used = usedOf(budget, resource);
  const limit = budget.limit[resource] ?? 0;
  switch (resource) {
    case "tokens":
      return `${used} of ${limit} tokens`;
    case "microUsd":
      return `$${(used / 1e6).toFixed(2)} of $${(limit / 1e6).toFixed(2)}`;
    case "milliseconds":
      return timeWords(used, limit);
  }
}

/** A short limit is told in seconds: "0 of 0 minutes" says nothing. */
function timeWords(used: number, limit: number): string {
  return limit < 120_000
    ? `${Math.ceil(used / 1000)} of ${Math.ceil(limit / 1000)} seconds`
    : `${Math.round(used / 60_000)} of ${Math.round(limit / 60_000)} minutes`;
}

/** US dollars for a million tokens, which is millionths of a dollar for one. */
export interface Price {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

/** By `provider:model`. */
export type PriceTable = Readonly<Record<string, Price>>;

interface Used {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cachedTokens?: number;
  readonly microUsd: number | null;
}

/** What a call cost: as its agent says, else by the table; null: nobody knows, which is not zero. */
export function costOf(usage: Used, price: Price | null): number | null {
  const { inputTokens, outputTokens, cachedTokens, microUsd } = usage;
  if (microUsd !== null) return microUsd;
  if (price === null || inputTokens === null || outputTokens === null) return null;
  if (cachedTokens === undefined && price.cached !== price.input) return null;
  const cached = Math.min(cachedTokens ?? 0, inputTokens);
  return Math.ceil((inputTokens - cached) * price.input + cached * price.cached + outputTokens * price.output);
}

/** A model that is not named is whatever the agent takes by default: it has no price. */
export function priceOf(table: PriceTable, provider: string, model: string | null): Price | null {
  const name = `${provider}:${model ?? ""}`;
  return model !== null && Object.hasOwn(table, name) ? (table[name] ?? null) : null;
}

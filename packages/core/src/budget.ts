// Budget arithmetic: reserve, settle and hold tokens, money and time against a run's limits, and compute prices.
import { HoldfastError } from "@holdfast/platform/error";
import type { Amounts, Budget } from "./position.ts";

export type Resource = Exclude<keyof Amounts, "unpriced" | "uncounted">;
export const RESOURCES = ["tokens", "microUsd", "milliseconds"] as const satisfies readonly Resource[];
export const NOTHING: Amounts = { tokens: 0, microUsd: 0, milliseconds: 0 };

type Reservation =
  | { readonly kind: "reserved"; readonly budget: Budget }
  /** Nothing was reserved. The run must wait. */
  | { readonly kind: "exceeded"; readonly resources: readonly Resource[] };

export function newBudget(limit: Partial<Budget["limit"]> = {}): Budget {
  return {
    spent: NOTHING,
    reserved: NOTHING,
    limit: { tokens: null, microUsd: null, milliseconds: null, ...limit },
  };
}

/**
 * Reserves the estimate before an agent call, or returns the limits that it would exceed. A call needs its whole
 * estimate to fit, and no call starts at a reached limit.
 */
export function reserve(budget: Budget, estimate: Amounts): Reservation {
  checkAmounts(estimate);
  const resources = RESOURCES.filter((resource) => {
    const limit = budget.limit[resource];
    const used = usedOf(budget, resource);
    return limit !== null && (used >= limit || add(used, estimate[resource]) > limit);
  });
  if (resources.length > 0) return { kind: "exceeded", resources };
  return { kind: "reserved", budget: addReserved(budget, estimate) };
}

export function addReserved(budget: Budget, estimate: Amounts): Budget {
  return { ...budget, reserved: sum(budget.reserved, estimate) };
}

/** The part of `amounts` beyond `counted`, never negative. */
export function amountsBeyond(amounts: Amounts, counted: Amounts): Amounts {
  return { ...amounts, ...each((resource) => Math.max(0, amounts[resource] - counted[resource])) };
}

/** Settles a finished call: releases the estimate and adds the actual usage, even beyond the limit. */
export function settle(budget: Budget, params: { readonly estimate: Amounts; readonly actual: Amounts }): Budget {
  checkAmounts(params.estimate);
  checkAmounts(params.actual);
  return {
    ...budget,
    spent: sum(budget.spent, params.actual),
    reserved: each((resource) => Math.max(0, budget.reserved[resource] - params.estimate[resource])),
  };
}

/** Adds working time. Time is neither reserved nor settled per call. */
export function spendTime(budget: Budget, milliseconds: number): Budget {
  return milliseconds === 0 ? budget : settle(budget, { estimate: NOTHING, actual: { ...NOTHING, milliseconds } });
}

/**
 * Settles calls that a crash interrupted, whose usage was never reported. Everything reserved counts as spent, so that
 * a run cannot exceed its limit by crashing and resuming.
 */
export function settleLost(budget: Budget): Budget {
  return { ...budget, spent: sum(budget.spent, budget.reserved), reserved: NOTHING };
}

/** The inverse of settleLost for one call whose result was found: its estimate is reserved again. */
export function reopenLost(budget: Budget, estimate: Amounts): Budget {
  return {
    ...budget,
    spent: { ...budget.spent, ...each((resource) => Math.max(0, budget.spent[resource] - estimate[resource])) },
    reserved: sum(budget.reserved, estimate),
  };
}

/** Holds an assumed amount for an interrupted call of unknown usage. It counts against the limits until the run ends. */
export function hold(budget: Budget, assumed: Amounts): Budget {
  checkAmounts(assumed);
  return { ...budget, held: sum(budget.held ?? NOTHING, assumed) };
}

/** Holds the estimate of a call that ended without reporting its tokens or its cost. */
export function holdUnknown(budget: Budget, estimate: Amounts, actual: Amounts): Budget {
  const held = unknownPart(estimate, actual);
  return held === null ? budget : hold(budget, held);
}

/** The estimate of what the call did not report; null: nothing. */
export function unknownPart(estimate: Amounts, actual: Amounts): Amounts | null {
  const tokens = (actual.uncounted ?? 0) > 0 ? estimate.tokens : 0;
  const microUsd = (actual.unpriced ?? 0) > 0 ? estimate.microUsd : 0;
  return tokens + microUsd === 0 ? null : { ...NOTHING, tokens, microUsd };
}

/** Amount that counts against a limit: spent, reserved for running calls, and held for calls of unknown usage. */
function usedOf({ spent, reserved, held }: Budget, resource: Resource): number {
  return add(add(spent[resource], reserved[resource]), held?.[resource] ?? 0);
}

/** Default of `budget.assumedTokens`: about one prompt of a coding agent. */
export const ASSUMED_TOKENS = 30_000;

/**
 * Assumed usage of a call whose usage is unknown: that of the run's largest call so far. Without one, `first` tokens or
 * a tenth of the limit, whichever is less. A call of an agent that never reports tokens counts as `first` in full: with
 * a tenth, any limit would allow ten calls. Resources without a limit get 0.
 */
export function assumedUsage(
  limit: Budget["limit"],
  largest: Pick<Amounts, "tokens" | "microUsd">,
  first: number = ASSUMED_TOKENS,
  neverKnown = false,
): Amounts {
  const tenth = (resource: "tokens" | "microUsd"): number => Math.ceil((limit[resource] ?? 0) / 10);
  const known = largest.tokens > 0 ? largest.tokens : Math.min(first, tenth("tokens"));
  const tokens = neverKnown ? first : known;
  const microUsd = largest.microUsd > 0 ? largest.microUsd : tenth("microUsd");
  return {
    ...NOTHING,
    tokens: limit.tokens === null ? 0 : tokens,
    microUsd: limit.microUsd === null ? 0 : microUsd,
  };
}

/** Resources that have reached their limit. If there are any, the run waits. */
export function exceeded(budget: Budget): readonly Resource[] {
  return RESOURCES.filter((resource) => {
    const limit = budget.limit[resource];
    return limit !== null && add(budget.spent[resource], budget.held?.[resource] ?? 0) >= limit;
  });
}

/** Limits on tokens and money that the run has reached with the usage of its running calls so far. Time has its own timer. */
export function reachedBy(budget: Budget, running: Iterable<Amounts>): readonly Resource[] {
  const now = [...running].reduce(sum, budget.spent);
  return exceeded({ ...budget, spent: now }).filter((resource) => resource !== "milliseconds");
}

/** Resources that have reached 80 % of their limit. */
export function nearLimit(budget: Budget): readonly Resource[] {
  return RESOURCES.filter((resource) => {
    const limit = budget.limit[resource];
    return limit !== null && usedOf(budget, resource) >= limit * 0.8;
  });
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

/** Saturates at the largest safe integer, because rounding must not reduce a budget. */
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

/** A short limit is shown in seconds, because "0 of 0 minutes" has no information. */
function timeWords(used: number, limit: number): string {
  return limit < 120_000
    ? `${Math.ceil(used / 1000)} of ${Math.ceil(limit / 1000)} seconds`
    : `${Math.round(used / 60_000)} of ${Math.round(limit / 60_000)} minutes`;
}

/** US dollars per million tokens, which equals millionths of a dollar per token. */
export interface Price {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  /** Input that is written to a cache. Absent: as input. */
  readonly cacheWrite?: number;
}

/** Prices by `provider:model`, or by the provider alone for its default model. */
export type PriceTable = Readonly<Record<string, Price>>;

interface Used {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cachedTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly microUsd: number | null;
}

/** Cost of a call in millionths of a US dollar: as the agent reports it, else by the price table. null: unknown, not zero. */
export function costOf(usage: Used, price: Price | null): number | null {
  const { inputTokens, outputTokens, cachedTokens, cacheWriteTokens = 0, microUsd } = usage;
  if (microUsd !== null) return microUsd;
  if (price === null || inputTokens === null || outputTokens === null) return null;
  if (cachedTokens === undefined && price.cached !== price.input) return null;
  const cached = Math.min(cachedTokens ?? 0, inputTokens);
  const written = Math.min(cacheWriteTokens, inputTokens - cached);
  const input = (inputTokens - cached - written) * price.input + written * (price.cacheWrite ?? price.input);
  return Math.ceil(input + cached * price.cached + outputTokens * price.output);
}

/** Without a named model the agent uses its default, whose price has the provider's name. */
export function priceOf(table: PriceTable, provider: string, model: string | null): Price | null {
  const name = model === null ? provider : `${provider}:${model}`;
  return Object.hasOwn(table, name) ? (table[name] ?? null) : null;
}

/** Why a run waits for its budget. */
export function usedUp(budget: Budget, resources: readonly Resource[]): string {
  return `The budget is used up: ${resources.map((one) => usedText(budget, one)).join(", ")}`;
}

/** An unknown amount counts as a call without a price or without tokens, never as zero. Time belongs to the run, not to the call. */
export function spentOf({ inputTokens, outputTokens, microUsd }: Used): Amounts {
  return {
    tokens: whole((inputTokens ?? 0) + (outputTokens ?? 0)),
    microUsd: whole(microUsd ?? 0),
    milliseconds: 0,
    ...(microUsd === null ? { unpriced: 1 } : {}),
    ...(inputTokens === null && outputTokens === null ? { uncounted: 1 } : {}),
  };
}

export interface Paid {
  readonly agent: string;
  readonly model: string | null;
}

/**
 * The limit that a call of unknown usage passes unnoticed; null: none. Unknown tokens count as an assumed number if the agent streams no usage
 * (`streams`), because such a number was reserved.
 */
export function unkeptLimit(
  limit: Budget["limit"],
  { inputTokens, outputTokens, microUsd }: Used,
  streams: boolean,
): "microUsd" | "tokens" | null {
  if (limit.microUsd !== null && microUsd === null) return "microUsd";
  const isUnknown = inputTokens === null && outputTokens === null;
  return limit.tokens !== null && isUnknown && streams ? "tokens" : null;
}

/** The notice that calls count as an assumed number of tokens, once per run. Call it before the call is settled. */
export function assumedNotice(
  budget: Budget,
  { inputTokens, outputTokens }: Used,
  agent: { readonly name: string; readonly capabilities: { readonly usage: boolean } },
): string | null {
  const isUnknown = inputTokens === null && outputTokens === null;
  if (budget.limit.tokens === null || !isUnknown || agent.capabilities.usage || (budget.spent.uncounted ?? 0) > 0)
    return null;
  return `${agent.name} does not report the tokens of a call: each call counts as an assumed number of tokens (see \`budget.assumedTokens\` in the config)`;
}

function whole(amount: number): number {
  return Number.isFinite(amount) ? Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount))) : 0;
}

import { isJsonObject } from "../../core/json.ts";
import { NOTHING, assumedUsage, exceeded, reserve, usedOf } from "../../core/position/budget.ts";
import type { Resource } from "../../core/position/budget.ts";
import type { Amounts, Budget } from "../../core/position/position.ts";
import { costOf, priceOf } from "../../core/position/price.ts";
import type { AgentUsage } from "../../ports/agent.ts";
import { parkRun } from "./park.ts";
import type { RunSession } from "./run-session.ts";
import type { Stay } from "../stage/stay.ts";

/** What the estimate would exceed; null: the call may start. Its `step.started` entry reserves the estimate, in the same turn. */
export function exceededBy({ budget }: RunSession, estimate: Amounts): readonly Resource[] | null {
  const reservation = reserve(budget, estimate);
  return reservation.kind === "exceeded" ? reservation.resources : null;
}

/** Before a pause: whoever waits for others uses up time as well, and nothing else. */
export async function parkOutOfTime(stay: Stay): Promise<void> {
  if (exceeded(stay.writer.budget).includes("milliseconds")) await parkSpent(stay, ["milliseconds"]);
}

export async function parkSpent(stay: Stay, resources: readonly Resource[]): Promise<never> {
  return await parkRun(stay, { on: "budget", reason: usedUp(stay.writer.budget, resources), until: null });
}

/** Why a run is parked on its budget. */
export function usedUp(budget: Budget, resources: readonly Resource[]): string {
  return `The budget is used up: ${resources.map((one) => usedText(budget, one)).join(", ")}`;
}

/** What to hold for a call that was cut off and whose usage is unknown. null: the run has no limit that depends on it. */
export async function assumeUnknown(writer: RunSession): Promise<Amounts | null> {
  const { limit } = writer.budget;
  if (limit.tokens === null && limit.microUsd === null) return null;
  let largest = NOTHING;
  for await (const { body } of writer.parts.store.readJournal({ run: writer.run.id })) {
    const { spent } = body;
    if (!isJsonObject(spent)) continue;
    const { tokens, microUsd } = spent;
    largest = {
      ...largest,
      tokens: Math.max(largest.tokens, typeof tokens === "number" ? tokens : 0),
      microUsd: Math.max(largest.microUsd, typeof microUsd === "number" ? microUsd : 0),
    };
  }
  return assumedUsage(limit, largest);
}

/** By the agent's own word, else by the table; null stays null. */
export function priced(writer: RunSession, usage: AgentUsage, who: Paid): AgentUsage {
  return { ...usage, microUsd: costOf(usage, priceOf(writer.parts.prices, who.agent, who.model)) };
}

/** What is unknown counts as a call without a price or without tokens, and is never called zero. Time is the run's, not the call's. */
export function spentOf({ inputTokens, outputTokens, microUsd }: AgentUsage): Amounts {
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
 * A limit that hangs on what nobody tells cannot be kept: said once a run, with what still limits it. Asked before the call is settled: the first call
 * without a price is the one that says it.
 */
export function limitNotice(budget: Budget, usage: AgentUsage, who: Paid): string | null {
  const { limit, spent } = budget;
  const { inputTokens, outputTokens, microUsd } = usage;
  if (limit.microUsd !== null && microUsd === null && (spent.unpriced ?? 0) === 0) {
    const name = who.model === null ? `${who.agent} with its default model` : `${who.agent}:${who.model}`;
    const others = [...(limit.tokens === null ? [] : ["tokens"]), ...(limit.milliseconds === null ? [] : ["time"])];
    const rest =
      others.length > 0
        ? `the limit on ${others.join(" and ")} holds`
        : "nothing else limits this run: set budget.maxTokens or budget.maxTime";
    return `The limit on money cannot be kept: what ${name} costs is not known (see \`prices\` in the config); ${rest}`;
  }
  if (limit.tokens !== null && inputTokens === null && outputTokens === null && (spent.uncounted ?? 0) === 0)
    return `The limit on tokens cannot be kept: ${who.agent} does not tell what a call took`;
  return null;
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

function whole(amount: number): number {
  return Number.isFinite(amount) ? Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount))) : 0;
}

import { exceeded, nearLimit, reserve, settle } from "../core/budget.ts";
import type { Resource } from "../core/budget.ts";
import type { Amounts, Budget } from "../core/position.ts";
import type { AgentUsage } from "../ports/agent.ts";
import { parkRun } from "./park.ts";
import type { RunWriter } from "./run-writer.ts";
import type { Stay } from "./stay.ts";

/** Sets the estimate aside, or parks the run on its budget. */
export async function reserveOrPark(stay: Stay, estimate: Amounts): Promise<void> {
  const { writer } = stay;
  writer.countTime();
  const reservation = reserve(writer.budget, estimate);
  if (reservation.kind === "exceeded") return await parkSpent(stay, reservation.resources);
  changeBudget(writer, reservation.budget);
}

/** Before a pause: whoever waits for others uses up time as well, and nothing else. */
export async function parkOutOfTime(stay: Stay): Promise<void> {
  stay.writer.countTime();
  if (exceeded(stay.writer.budget).includes("milliseconds")) await parkSpent(stay, ["milliseconds"]);
}

async function parkSpent(stay: Stay, resources: readonly Resource[]): Promise<never> {
  const used = resources.map((one) => usedText(stay.writer.budget, one));
  return await parkRun(stay, { on: "budget", reason: `The budget is used up: ${used.join(", ")}`, until: null });
}

export function settleSpent(writer: RunWriter, params: { readonly estimate: Amounts; readonly actual: Amounts }): void {
  changeBudget(writer, settle(writer.budget, params));
}

/** What is unknown counts as nothing; the run says so where a limit hangs on it. Time is the run's, not the call's. */
export function spentOf(writer: RunWriter, usage: AgentUsage): Amounts {
  const { limit } = writer.budget;
  const { inputTokens, outputTokens, microUsd } = usage;
  const silent = [
    ...(limit.tokens !== null && inputTokens === null && outputTokens === null ? ["tokens"] : []),
    ...(limit.microUsd !== null && microUsd === null ? ["money"] : []),
  ];
  if (silent.length > 0) {
    writer.tell({ kind: "budget", text: `The agent does not tell its ${silent.join(" and ")}: not counted` });
  }
  return {
    tokens: whole((inputTokens ?? 0) + (outputTokens ?? 0)),
    microUsd: whole(microUsd ?? 0),
    milliseconds: 0,
  };
}

/** 80 % is told when it is passed, and not again when a reservation is given back and taken anew. */
function changeBudget(writer: RunWriter, after: Budget): void {
  writer.budget = after;
  for (const resource of nearLimit(after)) {
    if (writer.budgetTold.has(resource)) continue;
    writer.budgetTold.add(resource);
    writer.tell({ kind: "budget", text: `80 % of the budget: ${usedText(after, resource)}` });
  }
}

function usedText(budget: Budget, resource: Resource): string {
  const used = budget.spent[resource] + budget.reserved[resource];
  const limit = budget.limit[resource] ?? 0;
  switch (resource) {
    case "tokens":
      return `${used} of ${limit} tokens`;
    case "microUsd":
      return `$${(used / 1e6).toFixed(2)} of $${(limit / 1e6).toFixed(2)}`;
    case "milliseconds":
      return `${Math.round(used / 60_000)} of ${Math.round(limit / 60_000)} minutes`;
  }
}

function whole(amount: number): number {
  return Number.isFinite(amount) ? Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount))) : 0;
}

import { RESOURCES, exceeded } from "../../core/position/budget.ts";
import type { Resource } from "../../core/position/budget.ts";
import type { Budget } from "../../core/position/position.ts";

/** The flags that raise what is used up; where nothing is yet, those of all limits: the next call would not fit in. */
export function giveMoreFlags(budget: Budget | null): string {
  const out = budget === null ? [] : exceeded(budget);
  const limited = RESOURCES.filter((resource) => budget !== null && budget.limit[resource] !== null);
  return (out.length > 0 ? out : limited).map((resource) => FLAG[resource]).join(" ");
}

const FLAG: Readonly<Record<Resource, string>> = {
  tokens: "--max-tokens N",
  microUsd: "--max-cost USD",
  milliseconds: "--max-total-time TIME",
};

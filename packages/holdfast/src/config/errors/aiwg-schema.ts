import * as z from "zod/mini";
import { ERROR_ACTIONS, ERROR_TYPES } from "../../core/error-policy/policy.ts";
import { choice, leaf, nonEmpty, whole, yesOrNo } from "../leaf.ts";
import { pattern, ruleId } from "./error-schema.ts";

const AIWG_STRATEGIES = [
  "retry_then_escalate",
  "retry_then_fallback",
  "fail_fast",
  "graceful_degrade",
  "checkpoint_recover",
] as const;
const BACKOFFS = ["none", "linear", "exponential", "fibonacci"] as const;
const MAX_DELAY_MS = 24 * 3_600_000;

const category = z.looseObject({
  id: leaf("a short name: letters, digits, - and _", ruleId),
  pattern: pattern(),
  type: choice(ERROR_TYPES),
  action: z.optional(choice(ERROR_ACTIONS)),
});

const agentPair = z.looseObject({ fallback: leaf("the name of an agent", nonEmpty) });

/** `error_handling` of a flow, as AIWG publishes its schema (error-handling/v1). What Holdfast has no use for is passed over. */
export const aiwgSchema = z.looseObject({
  strategy: choice(AIWG_STRATEGIES),
  classification: z.optional(
    z.looseObject({ categories: z.optional(z.array(category, "expected a list of categories")) }),
  ),
  retry: z.optional(
    z.looseObject({
      enabled: z.optional(yesOrNo()),
      max_attempts: z.optional(leaf("a whole number from 1 to 10", (value) => within(value, 1, 10))),
      initial_delay_ms: z.optional(leaf("milliseconds up to a day", (value) => within(value, 0, MAX_DELAY_MS))),
      backoff_strategy: z.optional(choice(BACKOFFS)),
      max_delay_ms: z.optional(leaf("milliseconds up to a day", (value) => within(value, 0, MAX_DELAY_MS))),
      jitter: z.optional(yesOrNo()),
      retry_on: z.optional(z.array(choice(ERROR_TYPES), "expected a list of types")),
    }),
  ),
  fallback: z.optional(
    z.looseObject({
      enabled: z.optional(yesOrNo()),
      agents: z.optional(z.array(agentPair, "expected a list of agents")),
    }),
  ),
});

export type AiwgErrors = z.output<typeof aiwgSchema>;

function within(value: unknown, least: number, most: number): number | undefined {
  const number = whole(value, least);
  return number !== undefined && number <= most ? number : undefined;
}

import { delaysOf } from "../../core/error-policy/delays.ts";
import { defaultErrorPolicy } from "../../core/error-policy/policy.ts";
import type { ErrorPolicy, ErrorRule, RetryPlan } from "../../core/error-policy/policy.ts";
import type { FileErrors, FileRetry } from "./error-schema.ts";

/**
 * What the file says over what an imported document says over the defaults. The file's own rules come first. Named agents to fall back to are fallen back to,
 * unless it is said what else follows.
 */
export function mergeErrors(errors: FileErrors, imported: ErrorPolicy | null): ErrorPolicy {
  const under = imported ?? defaultErrorPolicy;
  const agents = errors.fallback?.agents ?? under.fallback.agents;
  const isOwn = errors.fallback?.agents !== undefined && agents.length > 0;
  const retry = errors.retry === undefined ? under.retry : retryOf(errors.retry, under.retry);
  return {
    rules: [...(errors.rules ?? []).map((rule) => ruleOf(rule, retry)), ...under.rules],
    retry,
    exhausted: errors.exhausted ?? (isOwn ? "fallback" : under.exhausted),
    fallback: { agents, tries: errors.fallback?.tries ?? under.fallback.tries },
  };
}

type FileRule = NonNullable<FileErrors["rules"]>[number];

function ruleOf(rule: FileRule, retry: RetryPlan): ErrorRule {
  return {
    id: rule.id,
    causes: rule.causes ?? null,
    types: rule.types ?? null,
    pattern: rule.pattern ?? null,
    action: rule.action,
    retry: rule.retry === undefined ? retry : retryOf(rule.retry, retry),
    exhausted: rule.exhausted ?? "park",
  };
}

/** Only a jitter keeps the waits as they are; anything else makes them anew. */
function retryOf(given: FileRetry, under: RetryPlan): RetryPlan {
  const jitter = given.jitter ?? under.jitter;
  const { max, delay, multiplier, maxDelay } = given;
  if (max === undefined && delay === undefined && multiplier === undefined && maxDelay === undefined)
    return { ...under, jitter };
  return {
    delaysMs: delaysOf({
      retries: max ?? DEFAULTS.retries,
      initialMs: delay ?? DEFAULTS.initialMs,
      multiplier: multiplier ?? DEFAULTS.multiplier,
      capMs: maxDelay ?? DEFAULTS.capMs,
    }),
    jitter,
  };
}

const DEFAULTS = { retries: 5, initialMs: 2_000, multiplier: 4, capMs: 300_000 };

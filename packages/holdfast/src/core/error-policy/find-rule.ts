import type { FailureCause } from "../agent/failure-cause.ts";
import { matchesPattern } from "./pattern.ts";
import { TYPE_OF_CAUSE } from "./policy.ts";
import type { ErrorPolicy, ErrorRule } from "./policy.ts";

export interface AgentFailure {
  readonly cause: FailureCause;
  readonly message: string;
  readonly hint: string | null;
  /** When the provider says it will answer again. */
  readonly until: string | null;
  /** Nothing was done, in no time. */
  readonly instant: boolean;
}

/** The first of the policy's rules that fits, else the one that is built in. */
export function findRule(policy: ErrorPolicy, failure: AgentFailure, mustAnswer = false): ErrorRule {
  const rule = policy.rules.find((one) => fits(one, failure)) ?? builtInRule(policy, failure);
  return mustAnswer && rule.action === "ignore" ? insistOn(rule, failure) : rule;
}

/** Of a call whose answer is needed a failure is no result. Retried, except where the same call would fail the same way again. */
function insistOn(rule: ErrorRule, { cause }: AgentFailure): ErrorRule {
  const failsAgain = cause === "context_too_long" || cause === "permission_denied";
  return { ...rule, action: failsAgain ? "escalate" : "retry", exhausted: "park" };
}

function fits({ causes, types, pattern }: ErrorRule, { cause, message }: AgentFailure): boolean {
  if (causes !== null && !causes.includes(cause)) return false;
  if (types !== null && !types.includes(TYPE_OF_CAUSE[cause])) return false;
  return pattern === null || matchesPattern(pattern, message);
}

/** Ids of rules that nobody writes. */
export const BUILT_IN = { person: "needs_person", provider: "provider", stage: "stage" } as const;

/** What failed at the provider, was killed, or failed at once costs no iteration; what only the user can fix waits for the user; the rest is the stage's to decide. */
function builtInRule(policy: ErrorPolicy, { cause, instant }: AgentFailure): ErrorRule {
  const { retry, exhausted } = policy;
  const any = { causes: null, types: null, pattern: null, retry, exhausted };
  switch (cause) {
    case "auth":
    case "billing":
    case "missing":
    // The same prompt would come to the same.
    case "context_too_long":
    case "refusal":
    case "too_old":
      return { ...any, id: BUILT_IN.person, action: "escalate" };
    case "rate_limit":
    case "overload":
    case "network":
    case "proxy":
    // Silence is no work done: the process tree is gone by now, and the files go back before the next try.
    case "hang":
    // By the kernel for want of memory, or by hand: nothing was judged. Its session continues where it has one.
    case "killed":
      return { ...any, id: BUILT_IN.provider, action: "retry" };
    // The same would be denied again.
    case "permission_denied":
      return { ...any, id: BUILT_IN.stage, action: "ignore" };
    case "session_lost":
    case "timeout":
    case "crash":
    case "interrupted":
      return instant
        ? { ...any, id: BUILT_IN.provider, action: "retry" }
        : { ...any, id: BUILT_IN.stage, action: "ignore" };
  }
}

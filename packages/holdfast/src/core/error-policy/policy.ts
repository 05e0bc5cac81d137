import type { FailureCause } from "../agent/failure-cause.ts";
import type { Pattern } from "./pattern.ts";

/** What kind of trouble a failure is: the words of the flows' error-handling schema. */
export const ERROR_TYPES = ["transient", "permanent", "user", "system", "timeout", "validation", "permission"] as const;
export type ErrorType = (typeof ERROR_TYPES)[number];

/** "ignore": no try more; the stage is told that the call failed, and decides. */
export const ERROR_ACTIONS = ["retry", "fallback", "escalate", "abort", "ignore"] as const;
export type ErrorAction = (typeof ERROR_ACTIONS)[number];

/** What follows when the tries are used up. "park": until the provider's time, or until somebody resumes. */
export const LAST_ACTIONS = ["park", "fallback", "escalate", "abort", "ignore"] as const;
export type LastAction = (typeof LAST_ACTIONS)[number];

/** Waits between tries, one for each further try. */
export interface RetryPlan {
  readonly delaysMs: readonly number[];
  /** 0 to 1: by how much of itself a wait may be shortened, so that many runs do not come back at once. */
  readonly jitter: number;
}

export interface ErrorRule {
  /** Stands in the journal and in what people read. */
  readonly id: string;
  /** Each that is given must fit; null: any. */
  readonly causes: readonly FailureCause[] | null;
  readonly types: readonly ErrorType[] | null;
  readonly pattern: Pattern | null;
  readonly action: ErrorAction;
  readonly retry: RetryPlan;
  readonly exhausted: LastAction;
}

export interface ErrorPolicy {
  /** The first that fits decides; what none of them fits is decided as if there were none. */
  readonly rules: readonly ErrorRule[];
  /** For what fails at the provider. */
  readonly retry: RetryPlan;
  readonly exhausted: LastAction;
  readonly fallback: {
    /** `provider:model`, in the order in which they are asked. */
    readonly agents: readonly string[];
    /** Failed tries after which one of them is given up. */
    readonly tries: number;
  };
}

/** Then the run parks, and whoever resumes it grants as many again. */
const DEFAULT_RETRY: RetryPlan = { delaysMs: [2_000, 10_000, 30_000, 120_000, 300_000], jitter: 0 };

export const defaultErrorPolicy: ErrorPolicy = {
  rules: [],
  retry: DEFAULT_RETRY,
  exhausted: "park",
  fallback: { agents: [], tries: 1 },
};

/** Total: what each cause is, where a rule asks for the type. */
export const TYPE_OF_CAUSE: Readonly<Record<FailureCause, ErrorType>> = {
  rate_limit: "transient",
  overload: "transient",
  network: "transient",
  proxy: "transient",
  session_lost: "transient",
  hang: "timeout",
  timeout: "timeout",
  auth: "permission",
  permission_denied: "permission",
  billing: "user",
  interrupted: "user",
  context_too_long: "validation",
  missing: "permanent",
  too_old: "permanent",
  refusal: "validation",
  crash: "system",
  killed: "system",
};

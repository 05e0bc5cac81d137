import type { ParkedOn } from "../core/run.ts";
import type { AgentOutcome } from "../ports/agent.ts";

export type FailurePlan =
  /** It is the stage's to decide: the agent worked, and came to nothing. */
  | { readonly kind: "report" }
  | { readonly kind: "retry"; readonly delayMs: number }
  /** At once, in a session of its own: nothing is wrong but the one that it was to go on with. */
  | { readonly kind: "fresh" }
  | { readonly kind: "park"; readonly on: ParkedOn; readonly reason: string; readonly until: string | null };

/** Waits between tries on the provider's account. Then the run parks, and whoever resumes it grants as many again. */
const BACKOFF_MS = [2_000, 10_000, 30_000, 120_000, 300_000];

/** What failed at the provider, or at once, costs no iteration; what only a person can mend waits for one. */
export function planAgentFailure(params: {
  readonly agent: string;
  readonly failure: Extract<AgentOutcome, { readonly kind: "failed" }>;
  /** Failed tries of this call, this one included. */
  readonly failures: number;
  readonly now: number;
  /** Was it the session that failed? Once is for nothing; again, it is waited as for anything that fails at the provider. */
  readonly lostSession?: "first" | "again";
}): FailurePlan {
  const { agent, failure, now } = params;
  const { cause, message } = failure;
  switch (cause) {
    case "auth":
    case "billing":
    case "missing": {
      const fix = failure.hint === null ? "" : `. ${failure.hint}`;
      return { kind: "park", on: "person", reason: `${agent} cannot work (${cause}): ${message}${fix}`, until: null };
    }
    case "rate_limit":
    case "overload":
    case "network":
    // Silence is no work done: the process tree is gone by now, and the files go back before the next try.
    case "hang":
      return atProvider(params);
    case "session_lost":
      if (params.lostSession === undefined) return failure.instant ? atProvider(params) : { kind: "report" };
      return params.lostSession === "first" ? { kind: "fresh" } : atProvider(params);
    case "context_too_long":
    case "permission_denied":
    case "timeout":
    case "crash":
    case "killed":
    case "interrupted":
      return failure.instant ? atProvider({ ...params, now }) : { kind: "report" };
  }
}

function atProvider(params: Parameters<typeof planAgentFailure>[0]): FailurePlan {
  const { agent, failure, failures, now } = params;
  const { until, message, cause } = failure;
  if (until !== null && Date.parse(until) > now) {
    return { kind: "park", on: "quota", reason: `${agent} answers again at ${until}: ${message}`, until };
  }
  const delayMs = BACKOFF_MS[(failures - 1) % (BACKOFF_MS.length + 1)];
  if (delayMs !== undefined) return { kind: "retry", delayMs };
  const reason = `${agent} failed ${failures} times (${cause}): ${message}`;
  return { kind: "park", on: "quota", reason, until: null };
}

/** Why a call of an agent came to nothing. Told by the agent's adapter, which knows its program. */
export const FAILURE_CAUSES = [
  "rate_limit",
  "overload",
  "network",
  "auth",
  "billing",
  "proxy", // HTML instead of the provider's answer: a proxy or a captive portal is in between
  "too_old", // the provider, or a flag that we need, asks for a newer version of the program
  "refusal", // the model declined to answer
  "context_too_long",
  "permission_denied",
  "missing", // the program is not there
  "session_lost", // cannot be gone on with: unknown, no transcript, or refused by the provider; a fresh one can
  "hang",
  "timeout",
  "crash",
  "killed",
  "interrupted", // by our own signal
] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

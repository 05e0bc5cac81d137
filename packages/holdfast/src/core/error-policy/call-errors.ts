/**
 * What failed tries of one call have come to so far. Part of the visit, so that a resume neither forgets a try nor begins a wait anew. A type and no
 * interface: it is written into journal entries as it is.
 */
export type CallErrors = {
  /** Failed tries since the agent in hand was taken, by the rule that decided on them. */
  readonly counts: Readonly<Record<string, number>>;
  /** Agents that were taken instead of the call's own, as `provider:model`; the last one works now. */
  readonly agents: readonly string[];
  /** The next try is not before this time, and never later than so long after it was decided; null: at once. */
  readonly retryAt: string | null;
  readonly delayMs: number;
  /** The earliest time that a provider named for itself; null: none did. */
  readonly until: string | null;
  /** Decided, and perhaps not yet done: the run ends. */
  readonly abort?: string;
};

/** Which rule decided what about a failed try, and why. */
export type ErrorVerdict = {
  readonly rule: string;
  readonly action: "retry" | "fresh" | "fallback" | "park" | "escalate" | "abort";
  readonly why: string;
};

export const NO_ERRORS: CallErrors = { counts: {}, agents: [], retryAt: null, delayMs: 0, until: null };

/** How long a try must still wait. A clock that was set back makes it the whole time, never more. */
export function restOfDelay({ retryAt, delayMs }: CallErrors, now: number): number {
  return retryAt === null ? 0 : Math.max(0, Math.min(delayMs, Date.parse(retryAt) - now));
}

/** Who works on the call; undefined: the one that it names itself. */
export function fallbackOf(errors: CallErrors | undefined): string | undefined {
  return errors?.agents.at(-1);
}

/** For people. */
export function verdictText({ rule, action, why }: ErrorVerdict): string {
  return `${action} by rule ${rule}: ${why}`;
}

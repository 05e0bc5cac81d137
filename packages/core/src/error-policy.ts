// The error policy: pure rules that decide what follows a failed agent call (retry, fallback, wait, abort or report).
import type { FailureCause } from "./agent.ts";
import { type CallErrors, type ErrorVerdict, NO_ERRORS, fallbackOf } from "./position.ts";

/** Classes of failures, with the names of the error-handling schema. */
export const ERROR_TYPES = ["transient", "permanent", "user", "system", "timeout", "validation", "permission"] as const;
type ErrorType = (typeof ERROR_TYPES)[number];

/** "ignore": no further attempt. The stage gets the failure as the result and decides. */
export const ERROR_ACTIONS = ["retry", "fallback", "escalate", "abort", "ignore"] as const;
export type ErrorAction = (typeof ERROR_ACTIONS)[number];

/** What follows when the attempts are used up. "wait": the run waits until the provider's time, or until the user resumes it. */
export const LAST_ACTIONS = ["wait", "fallback", "escalate", "abort", "ignore"] as const;
export type LastAction = (typeof LAST_ACTIONS)[number];

/** Delays between attempts, one for each further attempt. */
export interface RetryPlan {
  readonly delaysMs: readonly number[];
  /** 0 to 1: fraction by which a delay may be shortened, so that many runs do not retry at the same moment. */
  readonly jitter: number;
}

/** A test of a failure's text. The config file's patterns are compiled by RE2, which cannot take longer than the text deserves. */
export interface Pattern {
  /** As the user wrote it. */
  readonly source: string;
  readonly matches: (text: string) => boolean;
}

export interface ErrorRule {
  /** Shown in the journal and in messages. */
  readonly id: string;
  /** Every condition that is not null must match. */
  readonly causes: readonly FailureCause[] | null;
  readonly types: readonly ErrorType[] | null;
  readonly pattern: Pattern | null;
  readonly action: ErrorAction;
  readonly retry: RetryPlan;
  readonly exhausted: LastAction;
}

export interface ErrorPolicy {
  /** The first matching rule decides. A failure that matches none is handled by the built-in rules. */
  readonly rules: readonly ErrorRule[];
  /** Delays for failures at the provider. */
  readonly retry: RetryPlan;
  readonly exhausted: LastAction;
  readonly fallback: {
    /** Fallback agents as `provider:model`, in order of preference. */
    readonly agents: readonly string[];
    /** Failed attempts after which the next fallback agent takes over. */
    readonly tries: number;
  };
}

/** After the last delay the run waits. A resume grants the same number of attempts again. */
const DEFAULT_RETRY: RetryPlan = { delaysMs: [2_000, 10_000, 30_000, 120_000, 300_000], jitter: 0 };

export const defaultErrorPolicy: ErrorPolicy = {
  rules: [],
  retry: DEFAULT_RETRY,
  exhausted: "wait",
  fallback: { agents: [], tries: 1 },
};

/** Class of each cause, for rules that match by class. */
const TYPE_OF_CAUSE: Readonly<Record<FailureCause, ErrorType>> = {
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

/** What follows a failed attempt. Every decision but "report" is recorded with `verdict` and `errors` in one commit. */
export type FailureDecision =
  /** The stage decides, because the agent worked without success. */
  | { readonly kind: "report" }
  | (Decided & { readonly kind: "retry"; readonly delayMs: number })
  /** Retry at once in a new session, because only the old session failed. */
  | (Decided & { readonly kind: "fresh" })
  /** Another agent takes over the call and starts from the call's first files. */
  | (Decided & { readonly kind: "fallback"; readonly agent: string })
  | (Decided & {
      readonly kind: "wait";
      readonly for: Wait;
      readonly reason: string;
      readonly until: string | null;
    })
  | (Decided & { readonly kind: "abort"; readonly reason: string });

type Wait = "you" | "quota" | "provider";

/** What a run waits for when no attempt is left. If the cause does not end by itself, the user must act. */
const WAIT_OF: Readonly<Record<FailureCause, Wait>> = {
  rate_limit: "quota",
  overload: "provider",
  network: "provider",
  hang: "provider",
  proxy: "provider",
  too_old: "you",
  refusal: "you",
  auth: "you",
  billing: "you",
  context_too_long: "you",
  permission_denied: "you",
  missing: "you",
  session_lost: "you",
  timeout: "you",
  crash: "you",
  killed: "you",
  interrupted: "you",
};

/** Delay of the next attempt under `--wait`, after the last attempt, if the provider names no time. */
const PROVIDER_WAIT_MS = 600_000;

interface Decided {
  readonly verdict: ErrorVerdict;
  readonly errors: CallErrors;
}

export interface FailedTry {
  readonly policy: ErrorPolicy;
  /** Name of the current agent, for messages. */
  readonly agent: string;
  /** The agent that the call names, as `provider:model`. */
  readonly own: string;
  readonly failure: AgentFailure;
  /** Number of failed attempts of this call, including this one. */
  readonly failures: number;
  /** The error state before this failure. undefined: none is recorded. */
  readonly before: CallErrors | undefined;
  readonly now: number;
  /** Random number from 0 to 1, for the jitter. */
  readonly random: number;
  /** Set when the session failed. The first loss costs no attempt. A second one counts as a failure at the provider. */
  readonly lostSession?: "first" | "again";
  /** True when the stage cannot use a failure as a result. The call is retried, and then the run waits. */
  readonly mustAnswer?: boolean;
}

export function decideFailure(failed: FailedTry): FailureDecision {
  const { before = NO_ERRORS, lostSession, policy, failure } = failed;
  if (lostSession === "first") {
    const verdict = { rule: "session", action: "fresh", why: "a fresh session takes over" } as const;
    return { kind: "fresh", verdict, errors: { ...before, retryAt: null, delayMs: 0 } };
  }
  const rule = findRule(
    policy,
    lostSession === "again" ? { ...failure, instant: true } : failure,
    failed.mustAnswer ?? false,
  );
  const tried = tryOf(failed, rule);
  switch (rule.action) {
    case "ignore":
      return { kind: "report" };
    case "retry":
    case "fallback":
      return tryAgain(tried);
    case "escalate":
      // If this agent is only a fallback, the next one may not need what this one lacks.
      return rule.id === BUILT_IN.person && before.agents.length > 0 ? nextAgent(tried, "escalate") : escalate(tried);
    case "abort":
      return abort(tried);
  }
}

interface Try extends FailedTry {
  readonly rule: ErrorRule;
  readonly errors: CallErrors;
  /** Number of failed attempts of the current agent under this rule, including this one. */
  readonly count: number;
  /** A future time that the provider named, or null. */
  readonly until: string | null;
}

function tryOf(failed: FailedTry, rule: ErrorRule): Try {
  const { before, failure, now } = failed;
  // A journal without recorded rules has only the total number of failures.
  const known = before === undefined ? (failed.failures - 1) % (rule.retry.delaysMs.length + 1) : 0;
  const counted = before !== undefined && Object.hasOwn(before.counts, rule.id) ? before.counts[rule.id] : known;
  const count = (counted ?? 0) + 1;
  const until = toCome(failure.until, now);
  const earlier = toCome(before?.until ?? null, now);
  const isFirst = until !== null && (earlier === null || Date.parse(until) < Date.parse(earlier));
  const named = isFirst ? until : earlier;
  const errors = { ...(before ?? NO_ERRORS), counts: { ...before?.counts, [rule.id]: count }, until: named };
  return { ...failed, rule, errors: { ...errors, retryAt: null, delayMs: 0 }, count, until };
}

function toCome(time: string | null, now: number): string | null {
  return time !== null && Date.parse(time) > now ? time : null;
}

/** If the provider names a time, the retry happens then, whatever the delays are. A fallback agent need not wait for it. */
function tryAgain(tried: Try): FailureDecision {
  const { rule, until, count, now } = tried;
  const leaves = rule.action === "fallback" || rule.exhausted === "fallback";
  if (until !== null && !leaves) return waitUntil(tried, until);
  const limit = leaves ? triesBeforeNext(tried) : rule.retry.delaysMs.length;
  const delayMs = until === null && count <= limit ? delayAt(rule.retry, count - 1, tried.random) : undefined;
  if (delayMs !== undefined) {
    const retryAt = new Date(now + delayMs).toISOString();
    const verdict = { rule: rule.id, action: "retry", why: `try ${count + 1} of ${limit + 1}` } as const;
    return { kind: "retry", delayMs, verdict, errors: { ...tried.errors, retryAt, delayMs } };
  }
  if (leaves) return nextAgent(tried, rule.action === "fallback" ? rule.exhausted : "wait");
  return act(tried, rule.exhausted);
}

/** Further attempts before the next agent takes over. A "fallback" rule leaves the call's own agent at once. */
function triesBeforeNext({ errors, policy, rule }: Try): number {
  const waits = rule.retry.delaysMs.length;
  if (errors.agents.length > 0) return Math.min(policy.fallback.tries - 1, waits);
  return rule.action === "fallback" ? 0 : waits;
}

/** What follows when no fallback agent is left. */
function act(tried: Try, last: LastAction): FailureDecision {
  switch (last) {
    case "wait":
    case "fallback":
      return waitForLater(tried);
    case "escalate":
      return escalate(tried);
    case "abort":
      return abort(tried);
    case "ignore":
      return { kind: "report" };
  }
}

function nextAgent(tried: Try, last: LastAction): FailureDecision {
  const { policy, own, errors, rule } = tried;
  const agent = policy.fallback.agents.find((name) => name !== own && !errors.agents.includes(name));
  if (agent === undefined) return act(tried, last);
  const verdict = {
    rule: rule.id,
    action: "fallback",
    why: `${agent} takes over from ${fallbackOf(errors) ?? own}`,
  } as const;
  return { kind: "fallback", agent, verdict, errors: { ...errors, counts: {}, agents: [...errors.agents, agent] } };
}

function waitUntil(tried: Try, until: string): FailureDecision {
  const { agent, failure, rule } = tried;
  const verdict = { rule: rule.id, action: "wait", why: `the provider names ${until}` } as const;
  const reason = `${agent} answers again at ${until}: ${failure.message}`;
  const what = failure.cause === "rate_limit" ? "quota" : "provider";
  return { kind: "wait", for: what, reason, until, verdict, errors: { ...tried.errors, counts: {} } };
}

/** The run waits. A resume grants the same number of attempts again, starting with the call's own agent. */
function waitForLater(tried: Try): FailureDecision {
  const { failure, rule, now } = tried;
  const named = tried.errors.until;
  const what = named === null ? WAIT_OF[failure.cause] : failure.cause === "rate_limit" ? "quota" : "provider";
  const until = what === "provider" ? (named ?? new Date(now + PROVIDER_WAIT_MS).toISOString()) : named;
  const verdict = { rule: rule.id, action: "wait", why: `${timesText(tried)} failed` } as const;
  const reason = `${whoFailed(tried)} (${failure.cause}): ${failure.message}${hintText(failure)}`;
  return { kind: "wait", for: what, reason, until, verdict, errors: NO_ERRORS };
}

function escalate(tried: Try): FailureDecision {
  const { agent, failure, rule, errors } = tried;
  const fix = hintText(failure);
  const isOwn = rule.id === BUILT_IN.person && errors.agents.length === 0;
  const reason = isOwn
    ? `${agent} cannot work (${failure.cause}): ${failure.message}${fix}`
    : `Rule ${rule.id} asks for you: ${whoFailed(tried)} (${failure.cause}): ${failure.message}${fix}`;
  const verdict = { rule: rule.id, action: "escalate", why: "only you can fix it" } as const;
  return { kind: "wait", for: "you", reason, until: null, verdict, errors: NO_ERRORS };
}

function abort(tried: Try): FailureDecision {
  const { failure, rule } = tried;
  const reason = `Rule ${rule.id} ends the run: ${whoFailed(tried)} (${failure.cause}): ${failure.message}`;
  const verdict = { rule: rule.id, action: "abort", why: `the rule says so after ${timesText(tried)}` } as const;
  return { kind: "abort", reason, verdict, errors: { ...tried.errors, abort: reason } };
}

function hintText({ message, hint }: AgentFailure): string {
  return hint === null ? "" : `${/[.!?]$/.test(message) ? "" : "."} ${hint}`;
}

function whoFailed({ own, agent, errors, failures }: Try): string {
  if (errors.agents.length === 0) return `${agent} failed ${failures === 1 ? "once" : `${failures} times`}`;
  return `${[own, ...errors.agents].join(", then ")} failed, ${failures} times in all`;
}

function timesText({ failures }: Try): string {
  return failures === 1 ? "1 try" : `${failures} tries`;
}

export interface AgentFailure {
  readonly cause: FailureCause;
  readonly message: string;
  readonly hint: string | null;
  /** ISO 8601 time at which the provider says it will answer again. null: it names none. */
  readonly until: string | null;
  /** The agent failed at once and did nothing. */
  readonly instant: boolean;
}

/** The first of the policy's rules that matches, else the built-in one. */
function findRule(policy: ErrorPolicy, failure: AgentFailure, mustAnswer = false): ErrorRule {
  const rule = policy.rules.find((one) => fits(one, failure)) ?? builtInRule(policy, failure);
  return mustAnswer && rule.action === "ignore" ? insistOn(rule, failure) : rule;
}

/** If the stage needs an answer, a failure is not a result: retry, unless the same call would fail the same way again. */
function insistOn(rule: ErrorRule, { cause }: AgentFailure): ErrorRule {
  const failsAgain = cause === "context_too_long" || cause === "permission_denied";
  return { ...rule, action: failsAgain ? "escalate" : "retry", exhausted: "wait" };
}

function fits({ causes, types, pattern }: ErrorRule, { cause, message }: AgentFailure): boolean {
  if (causes !== null && !causes.includes(cause)) return false;
  if (types !== null && !types.includes(TYPE_OF_CAUSE[cause])) return false;
  return pattern === null || pattern.matches(bothEnds(message));
}

const MAX_MATCHED = 8_192;

/** A failure may carry a whole log. What it is about is at its beginning or its end. */
function bothEnds(text: string): string {
  if (text.length <= MAX_MATCHED) return text;
  return `${text.slice(0, MAX_MATCHED / 2)}\n${text.slice(-MAX_MATCHED / 2)}`;
}

/** Ids of the built-in rules. */
const BUILT_IN = { person: "needs_person", provider: "provider", stage: "stage" } as const;

/**
 * Failures at the provider, kills and instant failures are retried and cost no iteration. Failures that only the user
 * can fix wait for the user. The stage decides about all others.
 */
function builtInRule(policy: ErrorPolicy, { cause, instant }: AgentFailure): ErrorRule {
  const { retry, exhausted } = policy;
  const any = { causes: null, types: null, pattern: null, retry, exhausted };
  switch (cause) {
    case "auth":
    case "billing":
    case "missing":
    // The same prompt would fail again.
    case "context_too_long":
    case "refusal":
    case "too_old":
      return { ...any, id: BUILT_IN.person, action: "escalate" };
    case "rate_limit":
    case "overload":
    case "network":
    case "proxy":
    // A hung agent has delivered nothing. Its process tree is gone by now, and its files are restored before the next attempt.
    case "hang":
    // The kernel (out of memory) or a user killed it, which says nothing about the work. If it has a session, that is resumed.
    case "killed":
      return { ...any, id: BUILT_IN.provider, action: "retry" };
    // The same tool call would be denied again.
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

type Backoff = "none" | "linear" | "exponential" | "fibonacci";

interface DelayParams {
  /** Number of attempts after the first. */
  readonly retries: number;
  readonly initialMs: number;
  readonly multiplier: number;
  readonly capMs: number;
  readonly backoff?: Backoff;
}

/** Delays before each further attempt, none longer than the cap. */
export function delaysOf({ retries, initialMs, multiplier, capMs, backoff = "exponential" }: DelayParams): number[] {
  return Array.from({ length: retries }, (_, at) =>
    Math.min(capMs, Math.round(initialMs * factorOf(backoff, at, multiplier))),
  );
}

/** `random` is from 0 to 1. Jitter only shortens a delay, so the cap holds, and without jitter the plan's delay applies. */
export function delayAt({ delaysMs, jitter }: RetryPlan, at: number, random: number): number | undefined {
  const delay = delaysMs[at];
  return delay === undefined ? undefined : Math.round(delay * (1 - jitter * random));
}

/** Converts random letters and digits to a fraction from 0 to 1. Randomness is injected as text. */
export function fractionOf(text: string): number {
  let fraction = 0;
  for (const character of [...text].toReversed()) fraction = (fraction + Number.parseInt(character, 36)) / 36;
  return Number.isFinite(fraction) ? fraction : 0;
}

function factorOf(backoff: Backoff, at: number, multiplier: number): number {
  switch (backoff) {
    case "none":
      return 1;
    case "linear":
      return at + 1;
    case "exponential":
      return multiplier ** at;
    case "fibonacci":
      return fibonacci(at + 1);
  }
}

function fibonacci(at: number): number {
  let [last, now] = [0, 1];
  for (let count = 1; count < at; count += 1) [last, now] = [now, last + now];
  return now;
}

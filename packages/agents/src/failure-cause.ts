// Causes of failed agent calls, from exit codes, HTTP statuses and messages, and the hints for them.

import type { AgentOutcome, AgentUsage, FailureCause } from "@holdfast/core/agent";
import type { AgentExit } from "./agent-process.ts";
import { upgradeHint } from "./agent-versions.ts";

export const UNKNOWN_USAGE: AgentUsage = { inputTokens: null, outputTokens: null, microUsd: null };

type Failed = Extract<AgentOutcome, { kind: "failed" }>;

/**
 * Classifies a failed program of unknown kind by its exit alone; null if it succeeded. Exit codes follow shell and
 * sysexits conventions. 127 and 126 mean that the program cannot run, above 128 a signal, and 75 (EX_TEMPFAIL) "later".
 */
export function classifyExit(params: {
  readonly exit: AgentExit;
  /** The name of the program in messages. */
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly timeoutMs: number | null;
  readonly idleMs: number | null;
}): Failed | null {
  const { exit, name } = params;
  // A process still runs and may edit files. Such a call never succeeds, whatever it returned.
  if (exit.survivors !== null) return failure("hang", `${name} left processes behind: ${exit.survivors}`);
  switch (exit.kind) {
    case "interrupted":
      return failure("interrupted", `${name} was stopped together with the run`);
    case "timed_out":
      return failure("timeout", `${name} did not exit within ${seconds(params.timeoutMs)}`, "Give it more time.");
    case "idle":
      return failure("hang", `${name} printed nothing for ${seconds(params.idleMs)}`);
    case "not_started":
      return classifyStart(name, exit.reason ?? "no reason given");
    case "signalled":
      return { ...failure("killed", `${name} was ended by ${exit.signal ?? "a signal"}`), instant: isInstant(exit) };
    case "exited":
      return exit.code === 0 ? null : { ...classifyCode(params), instant: isInstant(exit) };
  }
}

const RUN_IT = "Run it by hand in the worktree to see what is missing.";
/** A program that failed within this time, in milliseconds, had no time to work. */
export const INSTANT_MS = 2000;
const EX_TEMPFAIL = 75;

/** The outcome of a call for which no program was started, so nothing was spent. */
export function notStarted(
  session: string | null,
  failure: Pick<Failed, "cause" | "message" | "hint"> & { readonly until?: string | null },
): Failed {
  const { cause, message, hint, until = null } = failure;
  const usage = { inputTokens: 0, outputTokens: 0, microUsd: 0 };
  return { kind: "failed", cause, message, hint, until, session, usage, instant: true };
}

function classifyStart(name: string, reason: string): Failed {
  const message = `${name} could not be started: ${reason}`;
  // Out of processes, memory or open files. That is temporary and needs no action of the user.
  if (/\b(?:EMFILE|ENFILE|EAGAIN|ENOMEM)\b/.test(reason)) return { ...failure("crash", message), instant: true };
  return failure("missing", message, RUN_IT);
}

function classifyCode(params: { readonly exit: AgentExit; readonly name: string; readonly now: number }): Failed {
  const { exit, name, now } = params;
  const code = exit.code ?? 0;
  const output = lastLines(exit);
  if (code === 126 || code === 127) return failure("missing", `${name} could not be run${output}`, RUN_IT);
  if (code > 128 && code < 128 + 65) return failure("killed", `${name} was ended by signal ${code - 128}${output}`);
  if (code === EX_TEMPFAIL)
    return { ...failure("overload", `${name} asks to be retried later${output}`), until: retryAfter(exit.stderr, now) };
  return failure("crash", `${name} failed with exit ${code}${output}`);
}

function failure(cause: FailureCause, message: string, hint: string | null = null): Failed {
  return { kind: "failed", cause, message, hint, until: null, session: null, usage: UNKNOWN_USAGE, instant: false };
}

/**
 * True if the program printed nothing on standard output and had no time to work. Output on standard error does not
 * count as work.
 */
function isInstant(exit: AgentExit): boolean {
  return exit.stdout.trim() === "" && exit.milliseconds < INSTANT_MS;
}

function lastLines(exit: AgentExit): string {
  const text = exit.stderr.trim() === "" ? exit.stdout : exit.stderr;
  const lines = text.trim().split("\n").slice(-3).join("; ").slice(-500);
  return lines === "" ? "" : `: ${lines}`;
}

/** The last `retry-after:` line that the program printed. */
function retryAfter(stderr: string, now: number): string | null {
  return retryTime([...stderr.matchAll(/^\s*retry-after:[ \t]*(\S.*?)\s*$/gim)].at(-1)?.[1] ?? "", now);
}

/** Parses `retry-after` as seconds or as a date, as in HTTP; null if it is empty or invalid. */
export function retryTime(header: string, now: number): string | null {
  return isoTime(/^\d+(?:\.\d+)?$/.test(header) ? now + Number(header) * 1000 : Date.parse(header));
}

/** ISO 8601 of milliseconds since the epoch; null for no time, or one that has no form with a four-digit year. */
export function isoTime(at: number | null): string | null {
  return at !== null && at >= 0 && at < Date.UTC(9999, 11, 31) ? new Date(at).toISOString() : null;
}

function seconds(milliseconds: number | null): string {
  return `${(milliseconds ?? 0) / 1000} s`;
}

/** The meaning of a provider's HTTP status; null if the status alone is not conclusive. */
export function causeOfStatus(status: number | null): FailureCause | null {
  if (status === null) return null;
  return STATUSES.get(status) ?? (status >= 500 ? "overload" : null);
}

const STATUSES: ReadonlyMap<number, FailureCause> = new Map([
  [401, "auth"],
  [402, "billing"],
  [403, "auth"],
  [404, "missing"],
  [408, "network"],
  [413, "context_too_long"],
  [429, "rate_limit"],
]);

/** Phrases and their cause; the first one that matches counts. */
export type CausePatterns = readonly (readonly [RegExp, FailureCause])[];

export function matchCause(patterns: CausePatterns, text: string): FailureCause | null {
  return patterns.find(([pattern]) => pattern.test(text))?.[1] ?? null;
}

/**
 * Causes whose HTTP status suggests another one: a proxy's page (often 403), an unsupported client version (400), a
 * model that declines. It is checked before all other phrases.
 */
export function causeOfResponse(message: string): FailureCause | null {
  return matchCause(RESPONSES, message);
}

const RESPONSES: CausePatterns = [
  [/<!doctype html|<html[\s>]|is an HTML page|blocked by a gateway or proxy|proxy or gateway intercepting/i, "proxy"],
  [/requires a newer version|newer version .{0,60}required|version .{0,60}(?:no longer supported|too old)/i, "too_old"],
  [/version .{0,60}out(?:dated| of date)|(?:update|upgrade) (?:to the latest version|your (?:client|cli))/i, "too_old"],
  [
    /content[_ -]?filter|legal\/aup|prohibited_content|blocked (?:due to|by) (?:the )?safety|safety settings/i,
    "refusal",
  ],
];

/** Hints for causes that are the same for every agent; null if the adapter has its own hint. */
export function sharedHint(cause: FailureCause, agent: string): string | null {
  switch (cause) {
    case "proxy":
      return "An HTML page came instead of the model's answer. Sign in to the network, or correct HTTPS_PROXY and NO_PROXY.";
    case "too_old":
      return upgradeHint(agent);
    case "refusal":
      return "The model declined this prompt. Reword the issue or the task, or resume with another model: --agent PROVIDER:MODEL.";
    case "context_too_long":
      return "Shorten the issue or the task, or resume with a model that takes more: --agent PROVIDER:MODEL.";
    default:
      return null;
  }
}

/** Interprets the providers' own phrases where a status has several meanings. */
export function causeOfMessage(message: string): FailureCause | null {
  return matchCause(MESSAGES, message);
}

const MESSAGES: CausePatterns = [
  [/prompt (?:is|as) too long|context.{0,10}(?:length|window)|maximum context/i, "context_too_long"],
  [/too many tokens|prompt budget/i, "context_too_long"],
  [/insufficient_quota|credit balance|billing/i, "billing"],
  [/fetch failed|stream (?:ended|closed) (?:without|before)|connection|socket|unexpected EOF/i, "network"],
  [/ECONN|ENOTFOUND|ETIMEDOUT|\bterminated\b|network/i, "network"],
];

/**
 * The cause of a provider's error that an agent reports as a message and sometimes a status. `isFirst` marks the first
 * request of a resumed session: if the provider rejects it as invalid, the history is.
 */
export function causeOfProvider(params: {
  readonly message: string;
  readonly status: number | null;
  readonly isFirst: boolean;
}): FailureCause {
  const { message, status, isFirst } = params;
  return (
    causeOfResponse(message) ??
    causeOfMessage(message) ??
    causeOfStatus(status) ??
    (status === 400 && isFirst ? "session_lost" : "crash")
  );
}

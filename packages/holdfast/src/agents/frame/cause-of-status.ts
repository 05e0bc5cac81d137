import { AGENT_VERSIONS } from "../../core/agent/agent-versions.ts";
import type { FailureCause } from "../../ports/agent.ts";

/** What a provider's HTTP status means; null: it says nothing by itself. */
export function causeOfStatus(status: number | null): FailureCause | null {
  switch (status) {
    case 401:
    case 403:
      return "auth";
    case 402:
      return "billing";
    case 404:
      return "missing";
    case 408:
      return "network";
    case 413:
      return "context_too_long";
    case 429:
      return "rate_limit";
    default:
      return status !== null && status >= 500 ? "overload" : null;
  }
}

/**
 * Causes that look like another one by their status: the page of a proxy (often 403), a version that the provider does not serve any more (400), a model
 * that declines. Asked before anything else about the words of a failure.
 */
export function causeOfAnswer(words: string): FailureCause | null {
  if (
    /<!doctype html|<html[\s>]|is an HTML page|blocked by a gateway or proxy|proxy or gateway intercepting/i.test(words)
  )
    return "proxy";
  if (
    /requires a newer version|newer version .{0,60}required|version .{0,60}(?:no longer supported|too old|out of date|outdated)|(?:update|upgrade) (?:to the latest version|your (?:client|cli))/i.test(
      words,
    )
  )
    return "too_old";
  if (
    /content[_ -]?filter|legal\/aup|prohibited_content|blocked (?:due to|by) (?:the )?safety|safety settings/i.test(
      words,
    )
  )
    return "refusal";
  return null;
}

/** What to do about causes that are the same for every agent; null: the agent itself knows. */
export function sharedHint(cause: FailureCause, agent: string): string | null {
  switch (cause) {
    case "proxy":
      return "An HTML page came instead of the model's answer. Sign in to the network, or correct HTTPS_PROXY and NO_PROXY.";
    case "too_old":
      return `Upgrade it: ${AGENT_VERSIONS[agent]?.upgrade ?? "install its newest version"}`;
    case "refusal":
      return "The model declined this prompt. Reword the issue or the task, or resume with another model: --agent PROVIDER:MODEL.";
    case "context_too_long":
      return "Shorten the issue or the task, or resume with a model that takes more: --agent PROVIDER:MODEL.";
    default:
      return null;
  }
}

/** What the makers' own words mean where the status is one for many things. */
export function causeOfWords(words: string): FailureCause | null {
  if (
    /prompt (?:is|as) too long|context.{0,10}(?:length|window)|maximum context|too many tokens|prompt budget/i.test(
      words,
    )
  )
    return "context_too_long";
  if (/insufficient_quota|credit balance|billing/i.test(words)) return "billing";
  if (
    /fetch failed|stream (?:ended|closed) (?:without|before)|connection|socket|unexpected EOF|ECONN|ENOTFOUND|ETIMEDOUT|\bterminated\b|network/i.test(
      words,
    )
  )
    return "network";
  return null;
}

/** `retry-after` as seconds or as a date; null: it says nothing. */
export function retryTime(header: string, now: number): string | null {
  if (header === "") return null;
  const seconds = Number(header);
  const at = Number.isFinite(seconds) ? now + seconds * 1000 : Date.parse(header);
  return Number.isFinite(at) && Math.abs(at) < 8.64e15 ? new Date(at).toISOString() : null;
}

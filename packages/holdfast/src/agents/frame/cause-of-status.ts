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

/** What the makers' own words mean where the status is one for many things. */
export function causeOfWords(words: string): FailureCause | null {
  if (/prompt is too long|context.{0,10}(?:length|window)|maximum context|too many tokens|prompt budget/i.test(words))
    return "context_too_long";
  if (/insufficient_quota|credit balance|billing/i.test(words)) return "billing";
  if (/fetch failed|connection|socket|unexpected EOF|ECONN|ENOTFOUND|ETIMEDOUT|\bterminated\b|network/i.test(words))
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

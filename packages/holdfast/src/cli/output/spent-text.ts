import type { Amounts, Budget } from "../../core/position/position.ts";

/** "120k tokens, $1.25, 2 min"; null when nothing was spent. Limits are named where there are any. */
export function spentText(spent: Amounts, limit?: Budget["limit"]): string | null {
  const parts = [
    tokensSpentText(spent, limit?.tokens ?? null),
    costText(spent, limit?.microUsd ?? null),
    part(spent.milliseconds, limit?.milliseconds ?? null, timeText),
  ].filter((text) => text !== null);
  return parts.length === 0 ? null : parts.join(", ");
}

/** What no agent reported is named, never shown as nothing. null: no call took any. */
export function tokensSpentText(
  spent: Pick<Amounts, "tokens" | "uncounted">,
  limit: number | null = null,
): string | null {
  const known = part(spent.tokens, limit, tokensText);
  const { uncounted = 0 } = spent;
  if (uncounted === 0) return known;
  if (spent.tokens === 0) return limit === null ? "tokens unknown" : `tokens unknown of ${tokensText(limit)}`;
  return `${known ?? ""} and ${uncounted} ${uncounted === 1 ? "call" : "calls"} of unknown tokens`;
}

/** What nobody knows the price of is named, never shown as nothing. */
export function costText(spent: Pick<Amounts, "microUsd" | "unpriced">, limit: number | null = null): string | null {
  const known = part(spent.microUsd, limit, moneyText);
  const { unpriced = 0 } = spent;
  if (unpriced === 0) return known;
  if (spent.microUsd === 0) return limit === null ? "cost unknown" : `cost unknown of ${moneyText(limit)}`;
  return `${known ?? ""} and ${unpriced} ${unpriced === 1 ? "call" : "calls"} of unknown cost`;
}

/** For JSON: null where nothing is known. */
export function spentKnown<T extends Pick<Amounts, "tokens" | "microUsd" | "unpriced" | "uncounted">>(
  spent: T,
): Omit<T, "tokens" | "microUsd"> & { readonly tokens: number | null; readonly microUsd: number | null } {
  return {
    ...spent,
    tokens: spent.tokens === 0 && (spent.uncounted ?? 0) > 0 ? null : spent.tokens,
    microUsd: spent.microUsd === 0 && (spent.unpriced ?? 0) > 0 ? null : spent.microUsd,
  };
}

function part(amount: number, limit: number | null, text: (amount: number) => string): string | null {
  if (limit !== null) return `${text(amount)} of ${text(limit)}`;
  return amount > 0 ? text(amount) : null;
}

export function tokensText(tokens: number): string {
  if (tokens < 10_000) return `${tokens} tokens`;
  return tokens < 10_000_000 ? `${Math.floor(tokens / 1000)}k tokens` : `${Math.floor(tokens / 1_000_000)}M tokens`;
}

/** Two digits for people; less than a cent is still not nothing. */
export function moneyText(microUsd: number): string {
  if (microUsd > 0 && microUsd < 10_000) return `$${(microUsd / 1e6).toFixed(4)}`;
  return `$${(microUsd / 1e6).toFixed(2)}`;
}

export function timeText(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

import type { Amounts, Budget } from "../../core/position.ts";

/** "120k tokens, $1.25, 2 min"; null when nothing was spent. Limits are named where there are any. */
export function spentText(spent: Amounts, limit?: Budget["limit"]): string | null {
  const parts = [
    part(spent.tokens, limit?.tokens ?? null, tokensText),
    part(spent.microUsd, limit?.microUsd ?? null, moneyText),
    part(spent.milliseconds, limit?.milliseconds ?? null, timeText),
  ].filter((text) => text !== null);
  return parts.length === 0 ? null : parts.join(", ");
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

/** Formats quantities: tokens, money, times, sizes and counts. */
import type { Amounts, Budget } from "@holdfast/core/position";

/** "120k tokens, $1.25, 2 min"; null if nothing was spent. Limits are included if there are any. */
export function spentText(spent: Amounts, limit?: Budget["limit"]): string | null {
  const parts = [
    tokensSpentText(spent, limit?.tokens ?? null),
    costText(spent, limit?.microUsd ?? null),
    part(spent.milliseconds, limit?.milliseconds ?? null, timeText),
  ].filter((text) => text !== null);
  return parts.length === 0 ? null : parts.join(", ");
}

/** Calls without a reported count are mentioned, never shown as zero. null: no call used tokens. */
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

/** Calls with an unknown price are mentioned, never shown as zero. */
export function costText(spent: Pick<Amounts, "microUsd" | "unpriced">, limit: number | null = null): string | null {
  const known = part(spent.microUsd, limit, moneyText);
  const { unpriced = 0 } = spent;
  if (unpriced === 0) return known;
  if (spent.microUsd === 0) return limit === null ? "cost unknown" : `cost unknown of ${moneyText(limit)}`;
  return `${known ?? ""} and ${unpriced} ${unpriced === 1 ? "call" : "calls"} of unknown cost`;
}

/** For JSON: null for unknown amounts. */
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

/** Two decimals; an amount below a cent is not shown as zero. */
export function moneyText(microUsd: number): string {
  if (microUsd > 0 && microUsd < 10_000) return `$${(microUsd / 1e6).toFixed(4)}`;
  return `$${(microUsd / 1e6).toFixed(2)}`;
}

export function timeText(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** "5 min ago". A small clock difference to the writer is ignored. */
export function relativeTime(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "unknown";
  const seconds = (now - at) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 10 || (seconds < 0 && distance < 60)) return "just now";
  const span = spanText(distance);
  return seconds > 0 ? `${span} ago` : `in ${span}`;
}

/** The exact time in the user's zone, with its offset: "2026-11-15 02:43:53 +01:00". */
export function exactTime(iso: string, offset: (at: number) => number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return iso;
  const minutes = offset(at);
  const local = new Date(at + minutes * 60_000).toISOString();
  return `${local.slice(0, 10)} ${local.slice(11, 19)} ${zoneText(minutes)}`;
}

function spanText(seconds: number): string {
  const unit = TIME_UNITS.find(({ from }) => seconds >= from) ?? SECONDS;
  return `${Math.floor(seconds / unit.seconds)} ${unit.name}`;
}

const SECONDS = { from: 0, seconds: 1, name: "s" };
const TIME_UNITS = [
  { from: 365 * 86_400, seconds: 365 * 86_400, name: "y" },
  { from: 60 * 86_400, seconds: 30 * 86_400, name: "mo" },
  { from: 86_400, seconds: 86_400, name: "d" },
  { from: 3600, seconds: 3600, name: "h" },
  { from: 60, seconds: 60, name: "min" },
];

function zoneText(minutes: number): string {
  if (minutes === 0) return "UTC";
  const distance = Math.abs(minutes);
  const hours = String(Math.floor(distance / 60)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${hours}:${String(distance % 60).padStart(2, "0")}`;
}

/** "7 s", "12 min", "1 h 05 min": long enough for work that takes hours. */
export function clockText(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** "1 file", "3 files", "no files". */
export function countText(count: number, one: string, many = `${one}s`): string {
  if (count === 0) return `no ${many}`;
  return `${count} ${count === 1 ? one : many}`;
}

/** "1-4, 7, 9-12". */
export function rangesText(sequences: readonly number[]): string {
  const parts: string[] = [];
  const sorted = sequences.toSorted((a, b) => a - b);
  for (let at = 0; at < sorted.length; at += 1) {
    const from = sorted[at] ?? 0;
    while (sorted[at + 1] === (sorted[at] ?? 0) + 1) at += 1;
    const to = sorted[at] ?? from;
    parts.push(from === to ? String(from) : `${from}-${to}`);
  }
  return parts.join(", ");
}

/** At most one decimal; whole scores have none. */
export function scoreText(score: number): string {
  return String(Math.round(score * 10) / 10);
}

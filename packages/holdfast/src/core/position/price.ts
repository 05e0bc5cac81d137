/** US dollars for a million tokens, which is millionths of a dollar for one. */
export interface Price {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

/** By `provider:model`. */
export type PriceTable = Readonly<Record<string, Price>>;

interface Used {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cachedTokens?: number;
  readonly microUsd: number | null;
}

/** What a call cost: as its agent says, else by the table; null: nobody knows, which is not zero. */
export function costOf(usage: Used, price: Price | null): number | null {
  const { inputTokens, outputTokens, cachedTokens, microUsd } = usage;
  if (microUsd !== null) return microUsd;
  if (price === null || inputTokens === null || outputTokens === null) return null;
  if (cachedTokens === undefined && price.cached !== price.input) return null;
  const cached = Math.min(cachedTokens ?? 0, inputTokens);
  return Math.ceil((inputTokens - cached) * price.input + cached * price.cached + outputTokens * price.output);
}

/** A model that is not named is whatever the agent takes by default: it has no price. */
export function priceOf(table: PriceTable, provider: string, model: string | null): Price | null {
  const name = `${provider}:${model ?? ""}`;
  return model !== null && Object.hasOwn(table, name) ? (table[name] ?? null) : null;
}

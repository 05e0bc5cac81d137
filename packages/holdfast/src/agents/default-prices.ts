import type { PriceTable } from "../core/position/price.ts";

/**
 * Of agents that tell tokens and no money: US dollars for a million tokens, from the makers' public lists as of January 2026, standard tier, prompts of
 * up to 200 000 tokens. They change; `prices:` in the config goes before them, and what stands in neither is unknown. A date that is
 * older than yours is the reason to look them up.
 */
export const DEFAULT_PRICES: PriceTable = {
  "codex:gpt-4.1": { input: 2, cached: 0.5, output: 8 },
  "codex:gpt-5": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5-codex": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5-mini": { input: 0.25, cached: 0.025, output: 2 },
  "codex:gpt-5.1": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5.1-codex": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5.1-codex-mini": { input: 0.25, cached: 0.025, output: 2 },
  "codex:gpt-5.2": { input: 1.75, cached: 0.175, output: 14 },
  "codex:o3": { input: 2, cached: 0.5, output: 8 },
  "codex:o4-mini": { input: 1.1, cached: 0.275, output: 4.4 },
  "gemini:gemini-2.5-flash": { input: 0.3, cached: 0.03, output: 2.5 },
  "gemini:gemini-2.5-flash-lite": { input: 0.1, cached: 0.01, output: 0.4 },
  "gemini:gemini-2.5-pro": { input: 1.25, cached: 0.125, output: 10 },
};

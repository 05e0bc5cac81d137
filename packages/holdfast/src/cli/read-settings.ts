import { basename } from "node:path";
import type { EffectiveConfig } from "../config/effective-config.ts";
import { loadConfig } from "../config/load-config.ts";
import type { LoadParams } from "../config/load-config.ts";
import type { HoldfastError } from "../core/error.ts";
import { configError } from "./config-error.ts";
import { escapeText } from "./output/escape-text.ts";
import { paint } from "./output/page.ts";
import type { Page } from "./output/page.ts";

export interface ReadSettings {
  readonly config: EffectiveConfig;
  /** What is wrong with the file, when the defaults stand in for it. */
  readonly broken: HoldfastError | null;
}

/**
 * A command that only looks goes on with the defaults when the file is broken: the moment at which it is broken is the
 * moment at which somebody looks. A command that changes something stops: it would drop or skip by the wrong rules.
 */
export async function readSettings(params: {
  readonly layers: LoadParams;
  readonly lenient: boolean;
  readonly warn: (text: string) => void;
  readonly page: Page;
}): Promise<ReadSettings> {
  const loaded = await loadConfig(params.layers);
  if (loaded.ok) return { config: loaded.config, broken: null };
  const error = configError(loaded);
  if (!params.lenient) throw error;
  const { page } = params;
  params.warn(
    `${paint(page, "yellow", "warning:")} ${escapeText(basename(loaded.path))} is broken, so defaults are used: ${page.program} config check`,
  );
  return { config: loaded.fallback, broken: error };
}

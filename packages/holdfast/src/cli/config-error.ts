import { basename } from "node:path";
import { HoldfastError } from "../core/error.ts";
import type { LoadedConfig } from "../config/load-config.ts";

/** The first problem as the message, with its line shown; all of them as data. */
export function configError(loaded: Extract<LoadedConfig, { readonly ok: false }>): HoldfastError {
  const [first] = loaded.problems;
  const place = first === undefined ? "" : `:${first.line}:${first.column}`;
  const more = loaded.problems.length > 1 ? ` (and ${loaded.problems.length - 1} more)` : "";
  return new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${basename(loaded.path)}${place}: ${first?.message ?? "it does not parse"}${more}`,
    hint: first?.hint ?? "`holdfast config check` shows every problem, `holdfast init --dry-run` a right file.",
    data: { path: loaded.path, problems: loaded.problems, excerpt: first?.excerpt ?? "" },
  });
}

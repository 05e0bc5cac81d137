import type { JsonObject } from "../../core/json.ts";
import { flag, nullableText } from "../../core/option-value.ts";
import { parseRalphOptions, ralphOptionsJson } from "../../core/ralph/options.ts";
import type { RalphOptions } from "../../core/ralph/options.ts";

/** What a run of `ralph` is told: the loop itself, and what becomes of its work. Kept in the checkpoint's config. */
export interface LoopOptions extends RalphOptions {
  /** Is the criterion asked before the first iteration? One that holds already costs nothing then. */
  readonly firstCheck: boolean;
  /** Does it end in a pull request, or with the commits on its branch? */
  readonly pullRequest: boolean;
  readonly draft: boolean;
  /** null: as the remote or the forge says. */
  readonly baseBranch: string | null;
}

/** USAGE for a name that nobody reads and for a value that does not fit. */
export function parseLoopOptions(given: JsonObject): LoopOptions {
  const { firstCheck: _first, pullRequest: _request, draft: _draft, baseBranch: _base, ...loop } = given;
  return {
    ...parseRalphOptions(loop),
    firstCheck: flag(given, "firstCheck", true),
    pullRequest: flag(given, "pullRequest", false),
    draft: flag(given, "draft", false),
    baseBranch: nullableText(given, "baseBranch"),
  };
}

/** What is persisted: parsed once more it gives the same options. */
export function loopOptionsJson(options: LoopOptions): JsonObject {
  const { firstCheck, pullRequest, draft, baseBranch, ...loop } = options;
  return { ...ralphOptionsJson(loop), firstCheck, pullRequest, draft, baseBranch };
}

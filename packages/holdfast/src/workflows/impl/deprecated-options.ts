import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";

/** Old spelling → ours. */
const RENAMED: Readonly<Record<string, string>> = {
  backend: "implModel",
  maxIter: "maxIterations",
  enableReview: "review",
  enableSimp: "simplify",
};

/** USAGE when both spellings of one option are given: which of them counts would be a guess. */
export function deprecatedSpellings(given: JsonObject): {
  readonly current: JsonObject;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const entries = Object.entries(given).map(([name, value]) => {
    const current = Object.hasOwn(RENAMED, name) ? RENAMED[name] : undefined;
    if (current === undefined) return [name, value] as const;
    if (Object.hasOwn(given, current)) {
      throw new HoldfastError({
        code: "USAGE",
        message: `The impl workflow was given both ${name} and ${current}`,
        hint: `Leave ${name} out: it is the old spelling of ${current}.`,
      });
    }
    warnings.push(`${name} is the old spelling of ${current}`);
    return [current, value] as const;
  });
  return { current: Object.fromEntries(entries), warnings };
}

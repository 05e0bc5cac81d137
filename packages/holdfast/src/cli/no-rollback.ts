import type { RollbackChoice } from "../app.ts";
import { HoldfastError } from "../core/error.ts";

/** No checkpoint is safe: what stands in the way, and what a person can do about it. */
export function noRollback(run: string, choice: Extract<RollbackChoice, { readonly kind: "none" }>): HoldfastError {
  const [effect] = choice.effects;
  const hint =
    effect === undefined
      ? `See why with \`holdfast restore ${run} --smart --dry-run\`, and choose one yourself with --pick.`
      : `See to ${effect.kind} on ${effect.target} first (${effect.unsafe}); then say --past-effects.`;
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: choice.why,
    hint,
    retry: "ask",
    data: { run, rollback: choice },
  });
}

import type { CrunchEvent } from "../../core/crunch/crunch-event.ts";
import type { CrunchBase, CrunchIssue, CrunchState } from "../../core/crunch/crunch-state.ts";
import type { CrunchSettings } from "../../core/crunch/settings.ts";
import { HoldfastError } from "../../core/error.ts";
import type { StageContext } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { CrunchOptions } from "./options.ts";

/** What every stage of crunch works with. */
export interface CrunchWork {
  readonly options: CrunchOptions;
  readonly parts: WorkParts;
}

export type CrunchContext = StageContext<CrunchState>;

/** One event, once in this visit whatever happens: answers with what was recorded under the name first, its times included. */
export async function tell<E extends CrunchEvent>(context: CrunchContext, name: string, event: E): Promise<E> {
  return await context.record(name, event);
}

export function isoNow(context: Pick<CrunchContext, "now">): string {
  return new Date(context.now()).toISOString();
}

/** What the first stage found; of the issue what was last agreed on. INTERNAL before that: the table lets no other stage come first. */
export function requireSetup({ state, inputs }: CrunchContext): {
  readonly issue: CrunchIssue;
  readonly base: CrunchBase;
  readonly settings: CrunchSettings;
} {
  const { base, settings } = state;
  const issue = inputs.issue ?? state.issue;
  if (issue !== null && base !== null && settings !== null) return { issue, base, settings };
  throw new HoldfastError({ code: "INTERNAL", message: "A phase of crunch began before the issue was read" });
}

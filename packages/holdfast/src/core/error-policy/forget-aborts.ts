import type { Visit } from "../position/visit.ts";

/** Whoever goes back by hand, or forks, has seen why the run ended: what was counted stands, and the call is tried. */
export function forgetAborts(visit: Visit): Visit {
  const { errors } = visit;
  if (errors === undefined) return visit;
  const entries = Object.entries(errors).map(([step, { abort: _over, ...rest }]) => [step, rest] as const);
  return { ...visit, errors: Object.fromEntries(entries) };
}

import type { RunStatus, Starting } from "../../../app.ts";
import { spentKnown } from "../../output/spent-text.ts";

/** A cost that nobody knows is null, not 0. */
export function statusJson(status: RunStatus) {
  const { budget } = status;
  return { ...status, budget: budget === null ? null : { ...budget, spent: spentKnown(budget.spent) } };
}

/** A run without a record: only who prepares it is known. */
export function startingJson(starting: Starting) {
  return { run: null, condition: { kind: "starting", ...starting } };
}

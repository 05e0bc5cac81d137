import type { Holdfast } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import type { RunSummary } from "../core/run/run.ts";

/** A run by its id or by the issue it works on ("42", "#42"): the open one, else the newest. Exactly that issue. */
export async function findRun(holdfast: Holdfast, typed: string | undefined): Promise<RunSummary> {
  const issue = typed === undefined ? undefined : issueNumber(typed);
  if (issue === undefined) return await holdfast.resolveRun(typed);
  const runs = await holdfast.listRuns();
  const named = runs.find(({ id }) => id === typed);
  if (named !== undefined) return named;
  const own = runs.filter(({ work }) => work.kind === "issue" && work.number === issue);
  const found = own.find(({ state }) => state.kind === "open" || state.kind === "parked") ?? own[0];
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run for issue ${issue}`,
    hint: `Start one with \`holdfast run ${issue}\`.`,
  });
}

export function issueNumber(typed: string): number | undefined {
  const digits = /^#?([1-9]\d{0,14})$/.exec(typed)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

import { RERUN_OF } from "../../core/run/plan-begin.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Parts } from "../parts.ts";

export type FoundRun =
  | { readonly kind: "one"; readonly run: RunSummary }
  /** Somebody has to say which. */
  | { readonly kind: "several"; readonly runs: readonly RunSummary[] }
  /** None that could go on. `ended`: those that were, newest first. */
  | { readonly kind: "none"; readonly ended: readonly RunSummary[] };

/**
 * The open run of exactly this issue: issue 4 is not issue 42, whatever the run is called. One that died before its first
 * checkpoint knows neither its agent nor its options, and cannot go on: starting it again begins it under its own id.
 */
export async function findRunFor(params: {
  readonly parts: Parts;
  readonly issue: number;
  readonly workflow?: string;
}): Promise<FoundRun> {
  const { parts, issue, workflow } = params;
  const runs = (await parts.store.listRuns(workflow === undefined ? {} : { workflow })).filter(
    ({ work, labels }) => work.kind === "issue" && work.number === issue && labels[RERUN_OF] === undefined,
  );
  const ended = runs.filter(({ state }) => state.kind === "done" || state.kind === "fatal");
  const open = runs.filter((run) => !ended.includes(run) && run.checkpoints > 0);
  const [run, other] = open;
  if (run === undefined) return { kind: "none", ended };
  return other === undefined ? { kind: "one", run } : { kind: "several", runs: open };
}

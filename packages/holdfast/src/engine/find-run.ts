import type { RunSummary } from "../core/run.ts";
import type { Parts } from "./parts.ts";

export type FoundRun =
  | { readonly kind: "one"; readonly run: RunSummary }
  /** Somebody has to say which. */
  | { readonly kind: "several"; readonly runs: readonly RunSummary[] }
  /** None that could go on. `ended`: those that were, newest first. */
  | { readonly kind: "none"; readonly ended: readonly RunSummary[] };

/** The open run of exactly this issue: issue 4 is not issue 42, whatever the run is called. */
export async function findRunFor(params: {
  readonly parts: Parts;
  readonly issue: number;
  readonly workflow?: string;
}): Promise<FoundRun> {
  const { parts, issue, workflow } = params;
  const runs = (await parts.store.listRuns(workflow === undefined ? {} : { workflow })).filter(
    ({ work }) => work.kind === "issue" && work.number === issue,
  );
  const open = runs.filter(({ state }) => state.kind === "open" || state.kind === "parked");
  const [run, other] = open;
  if (run === undefined) return { kind: "none", ended: runs };
  return other === undefined ? { kind: "one", run } : { kind: "several", runs: open };
}

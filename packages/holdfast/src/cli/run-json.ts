/** The run object of `--json`: the same fields in the output of every command. */
import type { RunSummary } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import type { StartingProcess } from "../announce-start.ts";
import type { RunDetails } from "../run-status.ts";
import { spentKnown } from "./output/quantities.ts";
import { startingStatus } from "./output/status-text.ts";

/** The journal part of the status is left out: `status` says more. */
export function runJson({ run, status }: { readonly run: RunSummary; readonly status: RunStatus }) {
  const { id, workflow, work, createdAt, forkedFrom, labels, checkpoints, latest, entries, unfinishedRestore } = run;
  const stage = latest === null || latest.stage === "none" ? null : latest.stage;
  const place = { stage, iteration: latest?.iteration ?? 0 };
  return {
    id,
    workflow,
    work,
    status,
    ...place,
    checkpoints,
    latest,
    createdAt,
    forkedFrom,
    labels,
    entries,
    unfinishedRestore,
  };
}

/** The run object with everything that `status` shows. An unknown cost is null, not 0. */
export function statusJson({ run, status, ...details }: RunDetails) {
  const { budget } = details;
  const known = budget === null ? null : { ...budget, spent: spentKnown(budget.spent) };
  return { ...runJson({ run, status }), ...details, budget: known };
}

/** A run without a record: only the process that prepares it is known. */
export function startingJson(starting: StartingProcess) {
  const { run: id, workflow, work, since } = starting;
  const nothing = { stage: null, iteration: 0, checkpoints: 0, latest: null, forkedFrom: null, labels: {} };
  const status = startingStatus(starting);
  return { id, workflow, work, status, ...nothing, createdAt: since, entries: 0, unfinishedRestore: null };
}

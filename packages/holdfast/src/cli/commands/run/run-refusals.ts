import { HoldfastError } from "../../../core/error.ts";
import type { Lease } from "../../../core/lease/lease.ts";
import type { RunSummary } from "../../../core/run/run.ts";

/** Never a silent fresh start, never a second run beside one that is under way. */
export function openError(run: RunSummary): HoldfastError {
  const state = run.state.kind === "parked" ? `is parked on ${run.state.on}: ${run.state.reason}` : "is not finished";
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `There is a run for this already: ${run.id} ${state}`,
    hint: `Go on with it: \`holdfast resume ${run.id}\`. See where it stands: \`holdfast status ${run.id}\`.`,
    retry: "ask",
    data: { run: run.id },
  });
}

export function heldError(run: string, lease: Lease): HoldfastError {
  const { owner } = lease;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is being worked on by ${owner.label} (pid ${owner.pid} on ${owner.host}) since ${lease.takenAt}`,
    hint: `Watch it: \`holdfast status ${run} --watch\`. Stop it: \`holdfast stop ${run}\`.`,
    retry: "later",
    data: { run, owner, since: lease.takenAt },
  });
}

/** What was carried to a pull request is not carried there twice unless somebody says so. */
export function finishedError(
  run: RunSummary,
  params: { readonly issue: number; readonly request: string | null },
): HoldfastError {
  const { issue, request } = params;
  const end = run.state.kind === "done" ? "is done" : "was given up";
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Issue ${issue} has a run already: ${run.id} ${end}${request === null ? "" : `, and its pull request is ${request}`}`,
    hint: `${goOnHint(run)}See it: \`holdfast show ${run.id}\`. To carry the issue to another pull request all the same: \`holdfast run ${issue} --again\`.`,
    retry: "ask",
    data: { run: run.id, request },
  });
}

/** A run that was to go only so far is gone on with, not begun again. */
function goOnHint({ id, workflow, latest }: RunSummary): string {
  const target = "--target PHASE";
  return workflow === "crunch" && latest?.stage === "stopped"
    ? `Go on to a later one: \`holdfast resume ${id} ${target}\`. `
    : "";
}

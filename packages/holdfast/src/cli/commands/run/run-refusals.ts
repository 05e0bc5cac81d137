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

/** A crunch run stopped at its target, and a new one was asked for with another target. */
export function stoppedError(
  run: RunSummary,
  params: { readonly issue: number | null; readonly request: string | null },
): HoldfastError {
  const { issue, request } = params;
  const what = issue === null ? "This task" : `Issue ${issue}`;
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `${what} has a run that stopped at another target: ${run.id} is done${request === null ? "" : `, and its pull request is ${request}`}`,
    hint: `Continue it: \`holdfast resume ${run.id} --target ready-to-merge\`. For a new run, add --again.`,
    retry: "ask",
    data: { run: run.id, request },
  });
}

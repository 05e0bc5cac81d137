import type { JsonObject } from "../../core/json.ts";
import type { Answers } from "../../core/resume/resume.ts";
import { beginRun } from "../../engine/conduct/begin-run.ts";
import { conduct, outcomeOfEnded } from "../../engine/conduct/conduct.ts";
import { holdLease } from "../../engine/lease/hold-lease.ts";
import type { SlotRequest } from "../../engine/lease/hold-slot.ts";
import type { RunOutcome } from "../../engine/outcome.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { StartPlan } from "./plan-start.ts";
import { carryOn, planResumeRun } from "./resume-run.ts";
import { withSlot } from "./with-slot.ts";

export interface Watching {
  /** Aborted: work stops in order, everything is saved, and the outcome is "interrupted". */
  readonly signal: AbortSignal;
  readonly listen: ProgressListener | undefined;
  /** How long this process works on the run at most; then it is parked on "session". */
  readonly sessionMs: number | undefined;
  /** Its place among the loops at work; null: it is none whose number is limited. */
  readonly slot: SlotRequest | null;
}

export interface WorkReport {
  readonly run: string;
  readonly outcome: RunOutcome;
  /** The work had ended before: this is the outcome of that run, and nothing was done. */
  readonly earlier?: true;
}

/** The outcome of a run that has ended. */
export async function earlierReport(parts: WorkParts, run: RunSummary): Promise<WorkReport> {
  const outcome = await outcomeOfEnded(parts, run);
  if (outcome === null) throw new TypeError(`run ${run.id} has not ended`);
  return { run: run.id, outcome, earlier: true };
}

/** Killed anywhere and called again with the same plan, it is the same run. */
export async function startRun<S extends JsonObject>(
  parts: WorkParts,
  plan: StartPlan<S>,
  watching: Watching,
): Promise<WorkReport> {
  const { id, work, workflow, config, inputs, limit, labels } = plan;
  const { slot } = watching;
  const birth = { workflow: workflow.shape.name, work, labels };
  // Whoever waits may be told to pause, or be killed: what is there by then is resumed as any other run.
  const waits = slot?.whenFull === "wait";
  if (waits) {
    await parts.store.createRun({ id, ...birth });
    await begin();
  }
  if (slot !== null) return await withSlot(parts, id, { ...slot, birth }, carry);
  // Held from the first act to the last: at no moment is it a run that was begun and left, for somebody else to find.
  await using _lease = await holdLease(parts, id, undefined, birth);
  return await carry({ waited: false });

  async function carry({ waited }: { readonly waited: boolean }): Promise<WorkReport> {
    if (!waits) await begin();
    // Another process may have finished the work since it was planned.
    const found = await parts.store.getRun(id);
    if (found?.state.kind === "done" || found?.state.kind === "fatal") return await earlierReport(parts, found);
    if (waited) {
      const request = { run: id, workflow, config, answers: AS_IT_IS_NOW, from: undefined, force: false, limit: {} };
      return await carryOn(parts, request, await planResumeRun(parts, request), watching, []);
    }
    const outcome = await conduct({
      parts,
      run: id,
      workflow,
      signal: watching.signal,
      ...(watching.listen === undefined ? {} : { listen: watching.listen }),
      ...(watching.sessionMs === undefined ? {} : { sessionMs: watching.sessionMs }),
    });
    return { run: id, outcome };
  }

  /** The lease comes before the worktree: of two who start at once, one makes it and the other is told who that is. */
  async function begin(): Promise<void> {
    await using _lease = await holdLease(parts, id);
    const workspace = await makePlace(parts, plan);
    await beginRun({ parts, workflow, id, work, inputs, config, labels, limit, workspace });
  }
}

/** Nothing has been done yet, so what the issue says now is the order, without a question. */
const AS_IT_IS_NOW: Answers = {
  issue_title_changed: "accept",
  issue_body_changed: "accept",
  issue_labels_changed: "accept",
};

async function makePlace<S extends JsonObject>(parts: WorkParts, plan: StartPlan<S>): Promise<Workspace | undefined> {
  const { place, id } = plan;
  if (place === null || parts.workspaces === null) return undefined;
  return await parts.workspaces.create({
    run: id,
    path: place.worktree,
    branch: place.branch,
    ...(place.base === null ? {} : { base: place.base.commit }),
  });
}

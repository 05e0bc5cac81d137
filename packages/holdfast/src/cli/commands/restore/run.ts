import type { Holdfast, RestoreReport, RunHandle, RunRestorePlan } from "../../../app.ts";
import type { CheckpointSummary } from "../../../core/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { resolveAddress } from "../../resolve-address.ts";
import { unknownPath } from "../../unknown-path.ts";
import { runHeld, waitForRun } from "../../wait-for-run.ts";
import { worktreePaths } from "../../worktree-paths.ts";
import { lostWith } from "./lost-with.ts";
import { nothingText, planText, reportText } from "./view.ts";
import type { Shown } from "./view.ts";
import type { restoreSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof restoreSpec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false });
  const target = await resolveAddress(shell, holdfast, {
    typed: input.operand(0) ?? "",
    instead: "holdfast restore ADDRESS",
  });
  const handle = await holdfast.run(target.run);
  if (!dryRun) await waitForRun(shell, handle);
  const plan = await planOf(shell, holdfast, { handle, target, typed: input.paths });
  const [{ planes }, summary] = await Promise.all([handle.get(target.sequence), handle.summary()]);
  const shown = { plan, lost: lostWith(plan, planes.files) };
  if (dryRun) {
    shell.print({ json: () => ({ ...shown, dryRun }), text: (page) => planText(shown, page) });
    return "done";
  }
  // An unfinished restore leaves a mark in the journal; only another restore takes it away.
  const whole = plan.paths === null && target.sequence !== summary.latest?.sequence;
  if ((plan.files?.changes ?? []).length === 0 && !whole && summary.unfinishedRestore === null) {
    shell.print({ json: () => ({ ...shown, dryRun, report: null }), text: () => nothingText(plan) });
    return "done";
  }
  refuseBlocked(plan);
  if (!input.on("yes") && !(await decide(shell, shown))) return "decision";
  const report = await apply(shell, handle, plan);
  shell.print({ json: () => ({ ...shown, dryRun, report }), text: (page) => reportText({ ...shown, report }, page) });
  return "done";
}

async function planOf(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly handle: RunHandle; readonly target: CheckpointSummary; readonly typed: readonly string[] },
): Promise<RunRestorePlan> {
  const { handle, target, typed } = params;
  const { sequence } = target;
  if (typed.length === 0) return await handle.planRestore({ sequence });
  const root = (await handle.workspace())?.root;
  const paths = await worktreePaths({ paths: typed, cwd: shell.cwd, roots: root === undefined ? [] : [root] });
  try {
    return await handle.planRestore({ sequence, paths });
  } catch (cause) {
    if (!(cause instanceof HoldfastError) || cause.code !== "USAGE" || root === undefined) throw cause;
    throw await unknownPath({ shell, holdfast, target, root, paths, cause });
  }
}

/** Known from the plan alone, so nobody is asked about something that would then be refused. */
function refuseBlocked(plan: RunRestorePlan): void {
  const blocked = plan.files?.blocked ?? [];
  const [first] = blocked;
  if (first === undefined) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Restoring ${plan.target.id} would overwrite ${first}${blocked.length > 1 ? ` and ${blocked.length - 1} more` : ""}, which no checkpoint holds`,
    hint: "Move it away first, or restore other paths only: holdfast restore ADDRESS -- PATH...",
    data: { blocked },
  });
}

async function decide(shell: Shell, shown: Shown): Promise<boolean> {
  const { target, files } = shown.plan;
  shell.say(planText(shown, shell.talk));
  const changes = (files?.changes ?? []).length > 0;
  const answer = await shell.confirm(
    changes ? "Restore? What is there now is saved first." : "Restore the state? The run goes back to it.",
  );
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.say("Not restored; nothing was changed.");
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Restoring ${target.id} changes ${changes ? "files" : "the run's state"}, and there is nobody to ask`,
    hint: `Look with --dry-run, then: holdfast restore ${target.id} --yes`,
  });
}

async function apply(shell: Shell, handle: RunHandle, plan: RunRestorePlan): Promise<RestoreReport> {
  const work = async () => {
    try {
      return await handle.applyRestore(plan);
    } catch (error) {
      throw runHeld(error);
    } finally {
      await handle.close();
    }
  };
  return await shell.finish(work(), {
    done: (report) => `${plan.target.id} was restored (undo: ${shell.talk.program} restore ${report.undo?.id ?? ""})`,
    failed: async () => {
      const { unfinishedRestore } = await handle.summary();
      return unfinishedRestore === null
        ? null
        : `the restore of ${unfinishedRestore} did not finish (finish it: ${shell.talk.program} restore ${unfinishedRestore})`;
    },
  });
}

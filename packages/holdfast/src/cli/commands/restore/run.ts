import { refuseBlocked } from "../../../app.ts";
import type { Holdfast, RestoreReport, RollbackChoice, RunHandle, RunRestorePlan } from "../../../app.ts";
import type { CheckpointSummary } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import { stepsOf } from "../../../core/resume/restore-step.ts";
import type { Input, Shell } from "../../command.ts";
import type { Page } from "../../output/page.ts";
import { restoreStepsText } from "../../output/restore-steps-text.ts";
import { findRun } from "../../find-run.ts";
import { noRollback } from "../../no-rollback.ts";
import { pickCheckpoint } from "../../pick-checkpoint.ts";
import { resolveAddress } from "../../resolve-address.ts";
import { rollbackText } from "../../rollback-text.ts";
import { unknownPath } from "../../unknown-path.ts";
import { runHeld, waitForRun } from "../../wait-for-run.ts";
import { worktreePaths } from "../../worktree-paths.ts";
import { lostWith } from "./lost-with.ts";
import { goOnText, nothingText, planText, reportText } from "./view.ts";
import type { Shown } from "./view.ts";
import type { restoreSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof restoreSpec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const found = await findTarget(shell, holdfast, input);
  if (found.kind === "nothing") return found.exit;
  const { target, rollback } = found;
  const handle = await holdfast.run(target.run);
  if (!dryRun) await waitForRun(shell, handle);
  const plan = await withSteps(shell, () => planOf(shell, holdfast, { handle, target, typed: input.paths }));
  const [{ planes }, summary] = await Promise.all([handle.get(target.sequence), handle.summary()]);
  const shown = { plan, lost: lostWith(plan, planes.files), ...(rollback === undefined ? {} : { rollback }) };
  if (dryRun) {
    const why = (page: Page): string => (rollback === undefined ? "" : rollbackText(target.run, rollback, page));
    shell.print({ json: () => ({ ...shown, dryRun }), text: (page) => why(page) + planText(shown, page) });
    return "done";
  }
  await withSteps(shell, async () => refuseBlocked(plan));
  // An unfinished restore leaves a mark in the journal; only another restore takes it away.
  const whole = plan.paths === null && target.sequence !== summary.latest?.sequence;
  if ((plan.files?.changes ?? []).length === 0 && !whole && summary.unfinishedRestore === null) {
    shell.print({ json: () => ({ ...shown, dryRun, report: null }), text: () => nothingText(plan) });
    return "done";
  }
  if (!input.on("yes") && !(await decide(shell, shown))) return "decision";
  const report = await withSteps(shell, () => apply(shell, handle, plan));
  shell.say(restoreStepsText(report.steps, shell.talk));
  shell.print({
    json: () => ({ ...shown, dryRun, report }),
    text: (page) => reportText({ ...shown, report }, page) + (rollback === undefined ? "" : goOnText(summary, page)),
  });
  return "done";
}

type Found =
  | { readonly kind: "found"; readonly target: CheckpointSummary; readonly rollback?: RollbackChoice }
  | { readonly kind: "nothing"; readonly exit: Exit };

/** The checkpoint that was named, the one that is chosen by reading the failure, or the one that a person picks. */
async function findTarget(
  shell: Shell,
  holdfast: Holdfast,
  input: Input<(typeof restoreSpec)["flags"]>,
): Promise<Found> {
  const typed = input.operand(0) ?? "";
  const [smart, pick, pastEffects] = [input.on("smart"), input.on("pick"), input.on("past-effects")];
  refuseMixed({ typed, smart, pick, pastEffects });
  if (!smart && !pick) {
    const target = await resolveAddress(shell, holdfast, { typed, instead: "holdfast restore ADDRESS" });
    return { kind: "found", target };
  }
  const { id } = await findRun(holdfast, typed);
  const handle = await holdfast.run(id);
  if (pick) {
    const sequence = await pickCheckpoint(shell, handle, { instead: `holdfast restore ${id}@SEQ` });
    if (sequence !== null) return { kind: "found", target: await handle.get(sequence) };
    shell.say("Not restored; nothing was changed.");
    return { kind: "nothing", exit: "decision" };
  }
  const rollback = await handle.planRollback({ pastEffects });
  if (rollback.kind === "back") {
    if (!input.on("dry-run")) shell.say(rollbackText(id, rollback, shell.talk));
    return { kind: "found", target: await handle.get(rollback.chosen), rollback };
  }
  const dryRun = input.on("dry-run");
  if (rollback.kind === "none" && !dryRun) {
    shell.say(rollbackText(id, rollback, shell.talk));
    throw noRollback(id, rollback);
  }
  shell.print({
    json: () => ({ plan: null, lost: [], rollback, dryRun, ...(dryRun ? {} : { report: null }) }),
    text: (page) => rollbackText(id, rollback, page),
  });
  return { kind: "nothing", exit: rollback.kind === "stay" ? "done" : "decision" };
}

function refuseMixed(typed: {
  readonly typed: string;
  readonly smart: boolean;
  readonly pick: boolean;
  readonly pastEffects: boolean;
}): void {
  const flag = typed.smart ? "--smart" : "--pick";
  const why =
    typed.smart && typed.pick
      ? "--smart and --pick are two ways to choose"
      : (typed.smart || typed.pick) && typed.typed.includes("@")
        ? `${flag} chooses a checkpoint, and ${typed.typed} names one already`
        : typed.pastEffects && !typed.smart
          ? "--past-effects is for --smart"
          : null;
  if (why === null) return;
  throw new HoldfastError({
    code: "USAGE",
    message: why,
    hint: "Give one of them: restore RUN --smart, restore RUN --pick or restore RUN@7.",
  });
}

/** What each step came to is told also when one of them failed. */
async function withSteps<T>(shell: Shell, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const steps = error instanceof HoldfastError ? stepsOf(error.data) : [];
    if (steps.length > 0) shell.say(restoreStepsText(steps, shell.talk));
    throw error;
  }
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

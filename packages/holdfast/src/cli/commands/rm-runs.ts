/** The part of `rm` that removes whole runs. */
import type { RunRemoval } from "@holdfast/core/remove-run";
import { isEnded } from "@holdfast/core/run";
import { byteText } from "@holdfast/core/store-size";
import type { Holdfast } from "../../holdfast.ts";
import type { Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { countText } from "../output/quantities.ts";

export type RunSelection = {
  readonly force: boolean;
  readonly dryRun: boolean;
  readonly by: string;
} & (
  | { readonly runs: readonly string[] }
  | { readonly runs: null; readonly onlyDone: boolean; readonly olderThanMs: number }
);

/** Of runs that are named, all are removed or none is begun. Of selected ones, those that would be refused are kept. */
export async function removeRuns(shell: Shell, selection: RunSelection): Promise<Exit> {
  const { force, dryRun, by } = selection;
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const plans: RunRemoval[] = [];
  for (const address of selection.runs ?? (await selectRuns(holdfast, selection))) {
    const plan = await holdfast.planRemoval(address);
    if (!plans.some(({ run }) => run === plan.run)) plans.push(plan);
  }
  const isKept = ({ reasons }: RunRemoval): boolean => reasons.length > 0 && !force;
  const wanted = selection.runs === null ? plans.filter((plan) => !isKept(plan)) : plans;
  let freedBytes = 0;
  if (!dryRun) {
    // Refused before the first is removed.
    for (const plan of wanted.filter(isKept)) await holdfast.removeRun(plan, { by, force });
    for (const plan of wanted) {
      const removing = holdfast.removeRun(plan, { by, force });
      ({ freedBytes } = sum(freedBytes, await shell.finish(removing, { done: () => `${plan.run} was removed` })));
    }
  }
  shell.print({
    json: () => ({
      runs: plans.map((plan) => ({ ...describe(plan), removed: !dryRun && wanted.includes(plan) })),
      ...(dryRun ? {} : { freedBytes }),
      dryRun,
    }),
    text: () => summaryText({ plans, isKept, dryRun, freedBytes }),
  });
  return "done";
}

function sum(before: number, { freedBytes }: { readonly freedBytes: number }): { readonly freedBytes: number } {
  return { freedBytes: before + freedBytes };
}

async function selectRuns(
  holdfast: Holdfast,
  { onlyDone, olderThanMs }: Extract<RunSelection, { readonly runs: null }>,
): Promise<readonly string[]> {
  const before = Date.now() - olderThanMs;
  return (await holdfast.listRuns())
    .filter(({ state }) => isEnded(state) && (!onlyDone || state.kind === "done") && Date.parse(state.at) <= before)
    .map(({ id }) => id);
}

function describe({ run, state, remains, checkpoints, effects, reasons }: RunRemoval) {
  const branch = remains?.branch ?? null;
  return {
    run,
    state,
    worktree: remains?.worktree ?? null,
    branch: branch?.own === true ? branch.name.replace(/^refs\/heads\//, "") : null,
    checkpoints,
    effects,
    reasons,
  };
}

function summaryText(params: {
  readonly plans: readonly RunRemoval[];
  readonly isKept: (plan: RunRemoval) => boolean;
  readonly dryRun: boolean;
  readonly freedBytes: number;
}): string {
  const { plans, isKept, dryRun } = params;
  const kept = plans.filter(isKept);
  const removed = plans.filter((plan) => !isKept(plan));
  const lines = [
    ...removed.map((plan) => `${dryRun ? "Would remove" : "Removed"} ${plan.run}: ${partsText(plan)}.`),
    ...kept.map((plan) => `${dryRun ? "Would keep" : "Kept"} ${plan.run}: ${plan.reasons.join("; ")}.`),
    ...(kept.length === 0 ? [] : ["To remove them all the same, add --force."]),
    ...(plans.length === 0 ? ["No run to remove."] : []),
    ...(dryRun || removed.length === 0 ? [] : [`Freed ${byteText(params.freedBytes)} in the store.`]),
  ];
  return `${lines.join("\n")}\n`;
}

function partsText({ remains, checkpoints, effects, begun }: RunRemoval): string {
  if (begun) return "the rest of an interrupted removal, if there was one";
  const branch = remains?.branch?.own === true ? [`branch ${remains.branch.name.replace(/^refs\/heads\//, "")}`] : [];
  const worktree = remains?.worktree == null ? [] : ["its worktree"];
  const receipts = effects.length === 0 ? "" : `; ${countText(effects.length, "receipt")} kept`;
  return `${[...worktree, ...branch, countText(checkpoints, "checkpoint")].join(", ")}${receipts}`;
}

/** The part of `rm` that removes whole runs. */
import type { Lease } from "@holdfast/core/lease";
import { type RunRemoval, requireRemovable } from "@holdfast/core/remove-run";
import { isEnded } from "@holdfast/core/run";
import { byteText } from "@holdfast/core/store-size";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText } from "../output/text.ts";
import { quoteWord } from "../shell.ts";

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
  const running = new Map<string, Lease>();
  for (const address of selection.runs ?? (await selectRuns(holdfast, selection))) {
    const plan = await holdfast.planRemoval(address);
    if (plans.some(({ run }) => run === plan.run)) continue;
    const lease = plan.begun ? null : await liveLease(holdfast, plan.run);
    if (lease !== null) running.set(plan.run, lease);
    plans.push(lease === null ? plan : { ...plan, reasons: ["it is running"] });
  }
  const isRunning = ({ run }: RunRemoval): boolean => running.has(run);
  const removable = selectRemovable(
    plans.filter((plan) => !isRunning(plan)),
    force,
  );
  const wanted = selection.runs === null ? removable : forksFirst(plans);
  let freedBytes = 0;
  if (!dryRun) {
    // Refused before the first is removed.
    for (const { run } of wanted) refuseRunning(run, running.get(run));
    for (const plan of wanted) {
      if (removable.includes(plan)) continue;
      await refuseForked(holdfast, plan, { wanted, force });
      requireRemovable(withoutForks(plan, wanted), force);
    }
    for (const plan of wanted) {
      const removing = holdfast.removeRun(withoutForks(plan, wanted), { by, force });
      const removed = await shell.finish(removing, { done: () => `${plan.run} was removed` });
      freedBytes += removed.freedBytes;
      if (removed.filesStay !== null) {
        const { url = "", ref } = {
          url: holdfast.files?.url,
          ref: `refs/holdfast/${plan.run}/files/${holdfast.store.id}`,
        };
        shell.notify(
          `The files of ${plan.run} stay on ${escapeText(url)} (${escapeText(removed.filesStay)}). Remove them later: git push ${escapeText(url)} --delete ${ref}`,
        );
      }
    }
  }
  shell.print({
    json: () => ({
      runs: plans.map((plan) => ({ ...describe(plan), removed: !dryRun && wanted.includes(plan) })),
      ...(dryRun ? {} : { freedBytes }),
      dryRun,
    }),
    text: (page) => summaryText({ plans, removable, isRunning, dryRun, freedBytes }, page),
  });
  return "done";
}

async function liveLease(holdfast: Holdfast, run: string): Promise<Lease | null> {
  const holder = await (await holdfast.run(run)).holder();
  return holder?.alive === "alive" ? holder.lease : null;
}

/** A run that a process works on is not removed, not even by force. */
function refuseRunning(run: string, lease: Lease | undefined): void {
  if (lease === undefined) return;
  const { owner, takenAt } = lease;
  throw new HoldfastError({
    code: "LEASE_HELD",
    message: `${run} is not removed: it is running in ${owner.label} (pid ${owner.pid} on ${owner.host}) since ${takenAt}`,
    hint: `Stop it first: \`holdfast stop ${run}\`.`,
    retry: "later",
    data: { run, owner, since: takenAt },
  });
}

/** The hint names a command that removes the run with all its forks, and what --force would lose of each. */
async function refuseForked(
  holdfast: Holdfast,
  plan: RunRemoval,
  { wanted, force }: { readonly wanted: readonly RunRemoval[]; readonly force: boolean },
): Promise<void> {
  const { forks } = withoutForks(plan, wanted);
  if (forks.length === 0) return;
  const family = [...wanted];
  for (const { forks: below } of family)
    for (const fork of below)
      if (!family.some(({ run }) => run === fork)) family.push(await holdfast.planRemoval(fork));
  const kept = family.filter(({ reasons }) => reasons.length > 0);
  const command = ["holdfast rm", ...family.map(({ run }) => run), ...(force || kept.length > 0 ? ["--force"] : [])];
  const why = kept.map(({ run, reasons }) => ` ${run}: ${reasons.join("; ")}.`).join("");
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `${plan.run} is not removed: ${forks.map((fork) => `${fork} was forked from it`).join("; ")}`,
    hint: `A fork needs the run that it comes from. To remove them together: \`${command.join(" ")}\`.${why}`,
    data: { run: plan.run, reasons: plan.reasons, forks },
  });
}

/** Those that may be removed together, forks before the runs that they come from. A run stays as long as one of its forks stays. */
function selectRemovable(plans: readonly RunRemoval[], force: boolean): readonly RunRemoval[] {
  let chosen = plans.filter(({ reasons }) => reasons.length === 0 || force);
  for (let size = -1; size !== chosen.length;) {
    size = chosen.length;
    const runs = new Set(chosen.map(({ run }) => run));
    chosen = chosen.filter(({ forks }) => forks.every((fork) => runs.has(fork)));
  }
  return forksFirst(chosen);
}

function forksFirst(plans: readonly RunRemoval[]): readonly RunRemoval[] {
  const sorted: RunRemoval[] = [];
  const add = (plan: RunRemoval): void => {
    if (sorted.includes(plan)) return;
    for (const fork of plans.filter(({ run }) => plan.forks.includes(run))) add(fork);
    sorted.push(plan);
  };
  for (const plan of plans) add(plan);
  return sorted;
}

/** The plan as it will be once the forks among `others` are gone. */
function withoutForks(plan: RunRemoval, others: readonly RunRemoval[]): RunRemoval {
  return { ...plan, forks: plan.forks.filter((fork) => !others.some(({ run }) => run === fork)) };
}

async function selectRuns(
  holdfast: Holdfast,
  { onlyDone, olderThanMs }: Extract<RunSelection, { readonly runs: null }>,
): Promise<readonly string[]> {
  const before = Date.now() - olderThanMs;
  const ended = (await holdfast.listRuns())
    .filter(({ state }) => isEnded(state) && (!onlyDone || state.kind === "done") && Date.parse(state.at) <= before)
    .map(({ id }) => id);
  return [...(await holdfast.halfRemovedRuns()).map(({ run }) => run), ...ended];
}

function describe({ run, state, remains, ignored, checkpoints, effects, reasons, forks }: RunRemoval) {
  const branch = remains?.branch ?? null;
  return {
    run,
    state,
    worktree: remains?.worktree ?? null,
    branch: branch === null || branch.checkedOutAt !== null ? null : shortName(branch.name),
    ignored,
    checkpoints,
    effects,
    reasons,
    forks,
  };
}

function shortName(branch: string): string {
  return branch.replace(/^refs\/(?:heads|remotes)\//, "");
}

function summaryText(
  params: {
    readonly plans: readonly RunRemoval[];
    readonly removable: readonly RunRemoval[];
    readonly isRunning: (plan: RunRemoval) => boolean;
    readonly dryRun: boolean;
    readonly freedBytes: number;
  },
  { program }: Page,
): string {
  const { plans, removable, isRunning, dryRun } = params;
  const kept = plans.filter((plan) => !removable.includes(plan));
  const removed = plans.filter((plan) => removable.includes(plan));
  const lines = [
    ...removed.flatMap((plan) => [
      `${dryRun ? "Would remove" : "Removed"} ${plan.run}: ${partsText(plan)}.`,
      ...stayingText(plan, dryRun),
    ]),
    ...kept.map((plan) => `${dryRun ? "Would keep" : "Kept"} ${plan.run}: ${whyKept(plan, removable)}.`),
    ...kept.filter(isRunning).map(({ run }) => `Stop it first: ${program} stop ${run}`),
    ...(kept.some((plan) => plan.reasons.length > 0 && !isRunning(plan))
      ? ["To remove them all the same, add --force."]
      : []),
    ...(plans.length === 0 ? ["No run to remove."] : []),
    ...(dryRun || removed.length === 0 ? [] : [`Freed ${byteText(params.freedBytes)} in the store.`]),
  ];
  return `${lines.join("\n")}\n`;
}

function whyKept(plan: RunRemoval, removable: readonly RunRemoval[]): string {
  const forks = withoutForks(plan, removable).forks.map((fork) => `${fork} was forked from it`);
  return [...plan.reasons, ...forks].join("; ");
}

/** What has the name of the run and is not removed. */
function stayingText({ remains }: RunRemoval, dryRun: boolean): readonly string[] {
  const { branch = null, otherBranch = null, keptCopies = [], unlinked = null } = remains ?? {};
  const path = branch?.checkedOutAt ?? null;
  return [
    ...(branch === null || path === null
      ? []
      : [`  Branch ${shortName(branch.name)} stays: it is checked out in ${path}.`]),
    ...(otherBranch === null
      ? []
      : [
          `  Branch ${shortName(otherBranch)} stays. If you do not need it:`,
          `    git branch -d ${quoteWord(shortName(otherBranch))}`,
        ]),
    ...(unlinked === null
      ? []
      : [
          `  ${unlinked} stays: it leads to another repository than this one.`,
          ...(dryRun ? [`  To remove it as well, link it first: git worktree repair ${quoteWord(unlinked)}`] : []),
        ]),
    ...keptCopies.map((ref) => `  ${shortName(ref)} stays: it has commits that no other branch has.`),
  ];
}

function partsText({ remains, ignored, checkpoints, effects, begun }: RunRemoval): string {
  const { branch = null, worktree = null } = remains ?? {};
  if (begun) return "what an earlier removal left, if anything";
  const files = ignored.length === 0 ? "" : ` with ${countText(ignored.length, "ignored file")}`;
  const parts = [
    ...(worktree === null ? [] : [`its worktree${files}`]),
    ...(branch === null || branch.checkedOutAt !== null ? [] : [`branch ${shortName(branch.name)}`]),
    countText(checkpoints, "checkpoint"),
  ];
  const receipts = effects.length === 0 ? "" : `; ${countText(effects.length, "receipt")} kept`;
  return `${parts.join(", ")}${receipts}`;
}

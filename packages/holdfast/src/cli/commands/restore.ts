/** The `restore` command: restores files and state to a checkpoint. */
import type { CheckpointSummary, FilesPlane } from "@holdfast/core/checkpoint";
import {
  type RestoreReport,
  type RestoreStep,
  type RunRestorePlan,
  movesPosition,
  rejectBlocked,
  stepsOf,
} from "@holdfast/core/restore";
import type { RollbackChoice } from "@holdfast/core/rollback";
import type { UndoPreview } from "@holdfast/core/undo";
import { type RunSummary, isEnded } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { RestorePlane } from "@holdfast/core/save";
import type { FileChange, RestorePlan } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import { chooseHunks } from "../choose-hunks.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun, inScope, resolveAddress, unknownPath, worktreePaths } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { countText, relativeTime } from "../output/quantities.ts";
import { type SkippedPath, reasonText, skippedLine, skippedPaths } from "../output/run-text.ts";
import { escapeText, hangingIndent, truncate } from "../output/text.ts";
import { noRollbackError, pickCheckpoint, rollbackText } from "../pick-checkpoint.ts";
import { rebuild, setUpAgain, setupText, showRebuild } from "../restored-worktree.ts";
import { releaseAfter, waitForRun } from "../run-holder.ts";
import { undo, undoLine } from "./undo.ts";

const PLANES: readonly RestorePlane[] = ["files", "conversation", "state"];

export const spec = {
  name: "restore",
  summary: "go back: restore files and state from a checkpoint",
  details: [
    "A restore loses nothing: it saves the current files as a checkpoint first, so it can be undone, and it does not touch ignored files. At a terminal it shows the plan and asks; without a terminal --yes is needed.",
    "--smart chooses the checkpoint from the failure: checks, scores, side effects and damage. It takes the newest intact checkpoint before the cause that needs no side effect to be undone, and gives the reason for each checkpoint. If the files are not the cause, it restores nothing.",
    "The steps are: check the checkpoint, restore files, values and conversation, verify. If a step fails, the restore stops, names the step and leaves everything unchanged.",
    "--only limits the restore to one part. files: the position and the conversation stay. state: position and values go back, files and conversation stay; the run can then repeat or skip work, so prefer the whole checkpoint. conversation: the interrupted agent call continues from its earlier session, files and position stay.",
    "Files that the checkpoint does not include (too large, or in a nested git repository) are not restored; the output lists them. It also lists files that are no longer ignored: they stay, and the next checkpoint includes them. If nothing differs, nothing is written.",
    "If the run's worktree is gone, because you or `gc` removed it, the restore first creates it again at the same place.",
    "After the files it runs the set-up of the run's worktree (`workspace.setup`) again, if lockfiles, commands or Node differ from the last set-up there. This needs the same consent as a run; without it, the next `resume` asks. If the set-up fails, the restore stays, the command exits with 1, and the next `resume` repeats the set-up. The plan names versions of Node, git and agents that differ from those of the checkpoint.",
    "--undo-effects also undoes the side effects after the checkpoint, newest first, once the restore is complete: see `holdfast help undo`. The plan lists them, and what cannot be undone with its reason. If one of them fails, the command exits with 1; run it again.",
    "--patch shows each change of the files at a terminal and asks whether to apply it, as `git checkout -p` does. Only the chosen parts are restored; a new, deleted or binary file is one part. The position does not change.",
    "If an ignored file or a nested git repository is in the place of a file, the restore is refused before it changes anything (exit status 4).",
  ],
  operands: [
    {
      name: "ADDRESS",
      about: "RUN@7, RUN@latest, RUN@tag; RUN with --smart or --pick",
      required: true,
      completes: "address",
    },
  ],
  consent: "saves",
  paths: true,
  flags: {
    smart: { type: "boolean", about: "choose the checkpoint from the failure" },
    "past-effects": {
      type: "boolean",
      about: "with --smart: allow rolling back past irreversible side effects that you have handled",
    },
    pick: { type: "boolean", about: "choose from a list, at a terminal" },
    only: {
      type: "text",
      value: "PART",
      choices: PLANES,
      about: "restore only files, conversation or state",
    },
    patch: { type: "boolean", short: "p", about: "choose single changes of the files, at a terminal" },
    "undo-effects": { type: "boolean", about: "also undo the side effects after the checkpoint, newest first" },
    "dry-run": { type: "boolean", about: "show the plan, and change nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast restore fix-login@3 --dry-run", about: "show what would be written and removed" },
    { line: "holdfast restore fix-login@3", about: "show the plan, ask, and go back" },
    { line: "holdfast restore issue-42 --smart --dry-run", about: "show which checkpoint the failure points to" },
    { line: "holdfast restore fix-login@works --yes -- src/auth", about: "restore one directory without asking" },
    {
      line: "holdfast restore issue-42@3 --undo-effects --dry-run",
      about: "also show which side effects it would undo",
    },
    { line: "holdfast restore fix-login@3 -p -- src", about: "choose single changes of one directory" },
    { line: "holdfast restore fix-login@3 --only files", about: "restore the files, and continue where the run is" },
  ],
  json: '{"plan": {..., "only"}, "lost": [{"path", "why"}], "dryRun": true} or {"plan": {...}, "lost": [...], "dryRun": false, "report": {"undo", "checkpoint", "written", "removed", "steps": [{"step", "outcome", "text"}]}}, "report" null when there was nothing to do. "lost" is what the checkpoint was taken without, "toolchain" [texts] the programs that differ from those of the checkpoint. "rebuilds" is the path of a worktree that is gone and is created again; then the plan of --dry-run is null. After a restore also "setup": {"outcome": "done", "failed" or "skipped", "text"}, or null when the worktree needed no set-up. Restore "undo" to undo. With --smart also "rollback": {"kind": "back", "stay" or "none", "chosen", "why", "cause": {"kind", "why"}, "rejected": [{"sequence", "kind", "why"}]}; "plan" is null unless it goes back. With --undo-effects also "effects": [as `undo` lists them], and after the restore "undone": [{"key", "outcome": "undone" or "kept", "why"}].',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const only = input.on("patch") ? patchOf(shell, input) : onlyOf(input);
  const found = await findTarget(shell, holdfast, input);
  if (found.kind === "nothing") return found.exit;
  const { target, rollback } = found;
  const handle = await holdfast.run(target.run);
  if (!dryRun) await waitForRun(shell, handle);
  const rebuilds = only === "state" || only === "conversation" ? null : await handle.lostWorktree();
  if (rebuilds !== null && dryRun) return showRebuild(shell, target, rebuilds);
  if (rebuilds !== null && !(await rebuild(shell, handle, rebuilds, input.on("yes")))) return "needs_you";
  const plan = await withSteps(shell, () => planOf(shell, holdfast, { handle, target, typed: input.paths, only }));
  const [{ planes }, summary] = await Promise.all([handle.get(target.sequence), handle.summary()]);
  if (input.on("patch")) return await restoreHunks(shell, holdfast, handle, plan);
  const toolchain = await holdfast.work.compareToolchain(planes);
  const effects = input.on("undo-effects") ? await holdfast.effects(target.run, { after: target }) : undefined;
  const shown = {
    plan,
    ...(rebuilds === null ? {} : { rebuilds }),
    lost: lostWith(plan, planes.files),
    toolchain,
    ...(rollback === undefined ? {} : { rollback }),
    ...(effects === undefined ? {} : { effects }),
  };
  if (dryRun) {
    const why = (page: Page): string => (rollback === undefined ? "" : rollbackText(target.run, rollback, page));
    const then = (page: Page): string =>
      movesPosition(plan) && isEnded(summary.state)
        ? `The run stays ${summary.state.kind}.\n${continueText(summary, page)}`
        : "";
    shell.print({ json: () => ({ ...shown, dryRun }), text: (page) => why(page) + planText(shown, page) + then(page) });
    return "done";
  }
  await withSteps(shell, async () => rejectBlocked(plan));
  // An unfinished restore leaves a mark in the journal, which only another restore removes.
  const moves = plan.paths === null && target.sequence !== summary.latest?.sequence;
  const isSame = (plan.files?.changes ?? []).length === 0 && !moves && summary.unfinishedRestore === null;
  if (isSame && (effects ?? []).every(({ can }) => !can)) {
    const setup = rebuilds === null ? null : await setUpAgain(shell, holdfast, plan);
    shell.print({
      json: () => ({ ...shown, dryRun, report: null, ...(rebuilds === null ? {} : { setup }) }),
      text: (page) => (rebuilds === null ? nothingText(plan) : rebuiltText(plan)) + setupText(setup, page),
    });
    return setup?.outcome === "failed" ? "failed" : "done";
  }
  if (!input.on("yes") && !(await decide(shell, shown))) return "needs_you";
  const report = isSame ? null : await withSteps(shell, () => apply(shell, handle, plan));
  if (report !== null) shell.notify(restoreStepsText(report.steps, shell.talk));
  const undone = effects === undefined ? undefined : await undoAll(shell, holdfast, target.run, effects);
  const setup = report === null ? null : await setUpAgain(shell, holdfast, plan);
  shell.print({
    json: () => ({ ...shown, dryRun, report, setup, ...(undone === undefined ? {} : { undone }) }),
    text: (page) =>
      (report === null ? nothingText(plan) : reportText({ ...shown, report }, page)) +
      setupText(setup, page) +
      (undone ?? []).map((one) => undoneText(one, page)).join("") +
      (movesPosition(plan) && (rollback !== undefined || isEnded(summary.state)) ? continueText(summary, page) : ""),
  });
  const isKept = (undone ?? []).some(({ outcome }) => outcome === "kept");
  return isKept || setup?.outcome === "failed" ? "failed" : "done";
}

/** Checks the flags before the user answers anything. Without paths, all files are meant. */
function patchOf(shell: Shell, input: Input<(typeof spec)["flags"]>): RestorePlane | undefined {
  const other = (["undo-effects", "dry-run", "yes"] as const).find((name) => input.on(name));
  const only = input.text("only");
  if (other !== undefined || (only !== undefined && only !== "files"))
    throw usageError(
      `--patch asks about single changes of the files, so it takes no --${other ?? `only ${only ?? ""}`}`,
      "Leave out one of them.",
    );
  if (!shell.canAsk)
    throw usageError(
      "--patch needs a terminal to ask at",
      "Name files instead: holdfast restore ADDRESS --yes -- PATH...",
    );
  return input.paths.length > 0 ? undefined : "files";
}

async function restoreHunks(shell: Shell, holdfast: Holdfast, handle: RunHandle, whole: RunRestorePlan): Promise<Exit> {
  const patches = await handle.patches(whole);
  const chosen = await chooseHunks(shell, patches);
  if (chosen.length === 0) {
    shell.notify(patches.length === 0 ? nothingText(whole) : "Nothing was chosen, and nothing was changed.");
    return "done";
  }
  const plan = await withSteps(shell, () => handle.choosePatches(whole, chosen));
  await withSteps(shell, async () => rejectBlocked(plan));
  const report = await withSteps(shell, () => apply(shell, handle, plan));
  shell.notify(restoreStepsText(report.steps, shell.talk));
  const setup = await setUpAgain(shell, holdfast, plan);
  const shown = { plan, lost: [], toolchain: [] };
  shell.print({
    json: () => ({ ...shown, dryRun: false, report, setup }),
    text: (page) => reportText({ ...shown, report }, page) + setupText(setup, page),
  });
  return setup?.outcome === "failed" ? "failed" : "done";
}

interface UndoneEffect {
  readonly key: string;
  readonly outcome: "undone" | "kept";
  readonly why: string | null;
}

/** Undoes what the plan says, newest first. A refusal does not stop the others, because each asks its own target. */
async function undoAll(
  shell: Shell,
  holdfast: Holdfast,
  run: string,
  effects: readonly UndoPreview[],
): Promise<readonly UndoneEffect[]> {
  const undone: UndoneEffect[] = [];
  for (const { key } of effects.filter(({ can }) => can)) {
    try {
      await undo(shell, holdfast, run, key);
      undone.push({ key, outcome: "undone", why: null });
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code === "INTERRUPTED") throw error;
      undone.push({ key, outcome: "kept", why: error.message });
    }
  }
  return undone;
}

function undoneText({ key, why }: UndoneEffect, page: Page): string {
  if (why === null) return `${paint(page, "green", "✓")} ${escapeText(key)} is undone.\n`;
  return `${paint(page, "red", "✗")} ${escapeText(key)} is not undone: ${escapeText(why)}\n`;
}

type Found =
  | { readonly kind: "found"; readonly target: CheckpointSummary; readonly rollback?: RollbackChoice }
  | { readonly kind: "nothing"; readonly exit: Exit };

/** The named checkpoint, the one that `--smart` derives from the failure, or the one that the user picks. */
async function findTarget(shell: Shell, holdfast: Holdfast, input: Input<(typeof spec)["flags"]>): Promise<Found> {
  const typed = input.operand(0) ?? "";
  const [smart, pick, pastEffects] = [input.on("smart"), input.on("pick"), input.on("past-effects")];
  refuseMixed({ typed, smart, pick, pastEffects });
  if (input.on("undo-effects") && (input.text("only") !== undefined || input.paths.length > 0))
    throw usageError(
      "--undo-effects needs a restore of the whole checkpoint",
      "Leave out --only and the paths, or undo single effects with `holdfast undo RUN EFFECT`.",
    );
  if (!smart && !pick) {
    const target = await resolveAddress(shell, holdfast, { typed, instead: "holdfast restore ADDRESS" });
    return { kind: "found", target };
  }
  const { id } = await findRun(holdfast, typed);
  const handle = await holdfast.run(id);
  if (pick) {
    const sequence = await pickCheckpoint(shell, handle, { instead: `holdfast restore ${id}@SEQ` });
    if (sequence !== null) return { kind: "found", target: await handle.get(sequence) };
    shell.notify("Not restored; nothing was changed.");
    return { kind: "nothing", exit: "needs_you" };
  }
  const rollback = await handle.planRollback({ pastEffects });
  if (rollback.kind === "back") {
    if (!input.on("dry-run")) shell.notify(rollbackText(id, rollback, shell.talk));
    return { kind: "found", target: await handle.get(rollback.chosen), rollback };
  }
  const dryRun = input.on("dry-run");
  if (rollback.kind === "none" && !dryRun) {
    shell.notify(rollbackText(id, rollback, shell.talk));
    throw noRollbackError(id, rollback);
  }
  shell.print({
    json: () => ({ plan: null, lost: [], toolchain: [], rollback, dryRun, ...(dryRun ? {} : { report: null }) }),
    text: (page) => rollbackText(id, rollback, page),
  });
  return { kind: "nothing", exit: rollback.kind === "stay" ? "done" : "needs_you" };
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
      ? "--smart and --pick exclude each other"
      : (typed.smart || typed.pick) && typed.typed.includes("@")
        ? `${flag} chooses a checkpoint, and ${typed.typed} names one already`
        : typed.pastEffects && !typed.smart
          ? "--past-effects needs --smart"
          : null;
  if (why === null) return;
  throw usageError(why, "Give one of them: restore RUN --smart, restore RUN --pick or restore RUN@7.");
}

function onlyOf(input: Input<(typeof spec)["flags"]>): RestorePlane | undefined {
  const typed = input.text("only");
  const only = PLANES.find((plane) => plane === typed);
  if (only !== undefined && only !== "files" && input.paths.length > 0)
    throw usageError(`--only ${only} restores no files, so it takes no paths`, "Leave out one of them.");
  return only;
}

/** Reports the result of each step, even if one of them failed. */
async function withSteps<T>(shell: Shell, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const steps = error instanceof HoldfastError ? stepsOf(error.data) : [];
    if (steps.length > 0) shell.notify(restoreStepsText(steps, shell.talk));
    throw error;
  }
}

async function planOf(
  shell: Shell,
  holdfast: Holdfast,
  params: {
    readonly handle: RunHandle;
    readonly target: CheckpointSummary;
    readonly typed: readonly string[];
    readonly only: RestorePlane | undefined;
  },
): Promise<RunRestorePlan> {
  const { handle, target, typed, only } = params;
  const { sequence } = target;
  if (typed.length === 0) return await handle.planRestore({ sequence, ...(only === undefined ? {} : { only }) });
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
  shell.notify(planText(shown, shell.talk));
  const changes = (files?.changes ?? []).length > 0;
  const answer = await shell.confirm(
    changes ? "Restore? The current files are saved first." : `Restore the ${stateName(shown.plan)} of the run?`,
  );
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.notify("Not restored; nothing was changed.");
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Not a terminal: cannot ask whether restoring ${target.id} may change ${changes ? "files" : `the run's ${stateName(shown.plan)}`}`,
    hint: `Check with --dry-run, then run: holdfast restore ${target.id}${onlyFlag(shown.plan)}${shown.effects === undefined ? "" : " --undo-effects"} --yes`,
  });
}

function stateName({ only }: RunRestorePlan): "conversation" | "state" {
  return only === "conversation" ? "conversation" : "state";
}

function onlyFlag({ only }: RunRestorePlan): string {
  return only === null ? "" : ` --only ${only}`;
}

async function apply(shell: Shell, handle: RunHandle, plan: RunRestorePlan): Promise<RestoreReport> {
  const work = releaseAfter(handle, () => handle.applyRestore(plan));
  return await shell.finish(work, {
    done: (report) => `${plan.target.id} was restored (undo: ${shell.talk.program} restore ${report.undo?.id ?? ""})`,
    failed: async () => {
      const { unfinishedRestore } = await handle.summary();
      return unfinishedRestore === null
        ? null
        : `the restore of ${unfinishedRestore} did not finish (finish it: ${shell.talk.program} restore ${unfinishedRestore})`;
    },
  });
}

/** Paths that the checkpoint was taken without. The restore does not bring them back, so the user must learn about them. */
function lostWith(plan: RunRestorePlan, files: FilesPlane | null): readonly SkippedPath[] {
  const named = new Set(plan.files?.untouched.map(({ path }) => path));
  return skippedPaths(files).filter(
    ({ path }) => inScope(path, plan.paths) && !named.has(path) && !named.has(path.replace(/\/$/, "")),
  );
}

/** A plan, and the paths that the checkpoint was taken without. */
interface Shown {
  readonly plan: RunRestorePlan;
  readonly lost: readonly SkippedPath[];
  /** Programs that differ from those of the checkpoint. */
  readonly toolchain: readonly string[];
  /** The side effects after the checkpoint, if they are to be undone. */
  readonly effects?: readonly UndoPreview[];
}

export function planText(shown: Shown, page: Page): string {
  return restoreText(shown, page) + toolchainText(shown, page) + effectsText(shown, page);
}

function toolchainText({ toolchain }: Shown, page: Page): string {
  if (toolchain.length === 0) return "";
  const text = `since this checkpoint: ${toolchain.join("; ")}`;
  return `    ${paint(page, "yellow", "!")} ${escapeText(text)}\n`;
}

function effectsText({ effects }: Shown, page: Page): string {
  if (effects === undefined) return "";
  if (effects.length === 0) return "No side effect after it has to be undone.\n";
  const lines = effects.map((effect) => undoLine(effect, page).replaceAll(/^(?=.)/gm, "  "));
  return `Then undo, newest first:\n${lines.join("")}`;
}

function restoreText({ plan, lost }: Shown, page: Page): string {
  const { target, files } = plan;
  const name = target.name === null ? "" : ` "${escapeText(target.name)}"`;
  const head = `Restore ${paint(page, "bold", escapeText(target.id))}${name}, taken ${relativeTime(target.createdAt, page.now)}\n`;
  if (plan.only === "state" || plan.only === "conversation")
    return `${head}  ${plan.only} only: the files do not change\n`;
  if (files === null) return `${head}  state only: it has no files, or there is no worktree\n`;
  const lines = [
    `  in ${escapeText(files.root)}`,
    `  ${summary(files)}`,
    `  ${plan.only === "files" ? "files only; the state does not change" : plan.paths === null ? "the state is restored too" : "only these paths; the state does not change"}`,
  ];
  const shown = files.changes.length > SHOWN + 1 ? files.changes.slice(0, SHOWN) : files.changes;
  for (const change of shown) lines.push(changeLine(change, page));
  if (shown.length < files.changes.length)
    lines.push(`    … and ${files.changes.length - shown.length} more (all with --json)`);
  for (const { path, reason, bytes } of files.untouched.filter((left) => inScope(left.path, plan.paths))) {
    const line = `${path} left alone: ${reasonText(reason, bytes)}`;
    lines.push(`    ${paint(page, "yellow", "=")} ${truncate(escapeText(line), page.width - 6)}`);
  }
  for (const path of files.blocked)
    lines.push(
      `    ${paint(page, "red", "!")} ${truncate(escapeText(`${path} is in the way, and no checkpoint has it`), page.width - 6)}`,
    );
  return `${head}${lines.join("\n")}\n${exposedText(files, page)}${lostText(lost, page)}`;
}

/** These files may be secrets, or as large as a whole node_modules. */
function exposedText({ exposed }: RestorePlan, page: Page): string {
  const [first] = exposed;
  if (first === undefined) return "";
  const more = exposed.length === 1 ? "" : ` and ${exposed.length - 1} more`;
  const line = `no longer ignored; the next checkpoint includes: ${first}${more}`;
  return `    ${paint(page, "yellow", "!")} ${truncate(escapeText(line), page.width - 6)}\n`;
}

/** The files came with the worktree, which was created again. */
function rebuiltText({ target }: RunRestorePlan): string {
  return `Restored ${escapeText(target.id)}: the worktree has its files, also the uncommitted ones.\n`;
}

/** No checkpoint is written for a restore that changes nothing: it would only hide useful ones. */
function nothingText(plan: RunRestorePlan): string {
  const { id } = plan.target;
  if (plan.only !== null) {
    const same = plan.only === "files" ? "the files are the same" : `the ${plan.only} is that of the newest checkpoint`;
    return `Nothing to restore: ${same} in ${escapeText(id)}.\n`;
  }
  return plan.paths === null
    ? `Nothing to restore: ${escapeText(id)} is the newest checkpoint, and the files are the same.\n`
    : `Nothing to restore: these files are the same in ${escapeText(id)}.\n`;
}

/** How to resume the run after the restore; "" for a run without a workflow. */
function continueText({ id, workflow, state }: RunSummary, page: Page): string {
  if (workflow === "manual" || workflow === "none") return "";
  const ended = isEnded(state);
  const line = `${page.program} resume ${escapeText(id)}${ended ? "@latest --force" : ""}`;
  return `Continue with: ${paint(page, "bold", line)}\n`;
}

export function reportText(params: Shown & { readonly report: RestoreReport }, page: Page): string {
  const { plan, report } = params;
  const files =
    plan.files === null
      ? `${stateName(plan)} only`
      : report.written + report.removed === 0
        ? "no file had to change"
        : `${countText(report.written, "file")} written, ${report.removed} removed`;
  const lines = [
    `Restored ${paint(page, "bold", escapeText(plan.target.id))}: ${files}. Saved as ${escapeText(report.checkpoint.id)}.`,
  ];
  if (report.undo !== null)
    lines.push(`To undo: ${paint(page, "bold", `${page.program} restore ${escapeText(report.undo.id)}`)}`);
  const exposed = plan.files === null ? "" : exposedText(plan.files, page);
  return `${lines.join("\n")}\n${exposed}${lostText(params.lost, page)}${toolchainText(params, page)}`;
}

function lostText(lost: readonly SkippedPath[], page: Page): string {
  const lines = lost.slice(0, SHOWN).map((left) => skippedLine(left, "not restored", page, "    "));
  const more = lost.length - lines.length;
  return lines.join("") + (more > 0 ? `    … and ${more} more (all with --json)\n` : "");
}

const SHOWN = 20;

function summary(files: RestorePlan): string {
  if (files.changes.length === 0) return "no file has to change";
  const counts = { write: 0, create: 0, remove: 0, respell: 0, mode: 0 };
  for (const change of files.changes) counts[change.kind] += 1;
  const parts = [
    ...(counts.write > 0 ? [`${counts.write} overwritten`] : []),
    ...(counts.create > 0 ? [`${counts.create} created`] : []),
    ...(counts.remove > 0 ? [`${counts.remove} removed`] : []),
    ...(counts.respell > 0 ? [`${counts.respell} renamed`] : []),
    ...(counts.mode > 0 ? [`${counts.mode} with another mode`] : []),
  ];
  const paths = new Set(files.changes.map(({ path }) => path));
  return `${countText(paths.size, "file")} to change: ${parts.join(", ")}`;
}

const CHANGE_MARKS: Readonly<Record<FileChange["kind"], { readonly mark: string; readonly style: Style }>> = {
  write: { mark: "M", style: "yellow" },
  create: { mark: "A", style: "green" },
  remove: { mark: "D", style: "red" },
  respell: { mark: "R", style: "yellow" },
  mode: { mark: "m", style: "dim" },
};

export function changeLine(change: FileChange, page: Page): string {
  const { mark, style } = CHANGE_MARKS[change.kind];
  const name = change.kind === "respell" ? `${change.from} → ${change.path}` : change.path;
  return `    ${paint(page, style, mark)} ${truncate(escapeText(name), page.width - 6)}`;
}

/** One line per step. */
function restoreStepsText(steps: readonly RestoreStep[], page: Page): string {
  return steps
    .map(({ step, outcome, text }) => {
      const { mark, style } = STEP_MARKS[outcome];
      return hangingIndent({ label: `${mark} ${step}`, labelWidth: LABELS, text }, page).replace(
        mark,
        paint(page, style, mark),
      );
    })
    .join("");
}

const LABELS = "✓ conversation".length;

const STEP_MARKS: Readonly<Record<RestoreStep["outcome"], { readonly mark: string; readonly style: Style }>> = {
  done: { mark: "✓", style: "green" },
  skipped: { mark: "-", style: "dim" },
  handed_over: { mark: "!", style: "yellow" },
  failed: { mark: "✗", style: "red" },
  not_reached: { mark: "·", style: "dim" },
};

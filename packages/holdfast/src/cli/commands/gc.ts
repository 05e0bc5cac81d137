/** The `gc` command: drops what retention allows, removes worktrees of runs that have ended, and frees their space. */
import { join } from "node:path";
import type { GcPlan, GcReport } from "@holdfast/core/gc";
import type { RemovedWorktree, WorktreeRemoval } from "@holdfast/core/remove-worktrees";
import { RETENTION_PRESETS, type RetentionDecision } from "@holdfast/core/retention";
import { HoldfastError } from "@holdfast/platform/error";
import type { LayoutCleanupPlan } from "@holdfast/workflows/plugin";
import { byteText } from "@holdfast/core/store-size";
import { AGE_RULE, DONE_RULE, MINIMUM_AGE_RULE, neverDroppedText } from "../../config/config-template.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { countText, rangesText } from "../output/quantities.ts";
import { RUN_COLUMN } from "../output/run-text.ts";
import { escapeText, hangingIndent } from "../output/text.ts";
import { type Cell, renderTable } from "../output/table.ts";
import { usageText } from "./doctor.ts";

export const spec = {
  name: "gc",
  summary: "free the space of old checkpoints and of worktrees of ended runs",
  details: [
    "Applies the retention rules of holdfast.config.yaml (`holdfast config` shows them): how many checkpoints of each trigger to keep, and for how long. Every dropped checkpoint leaves a tombstone with the time and the reason.",
    `Never dropped: ${neverDroppedText()}.`,
    `Young runs: ${MINIMUM_AGE_RULE}. By default that is 30 days.`,
    `Age: ${AGE_RULE}. ${DONE_RULE.charAt(0).toUpperCase()}${DONE_RULE.slice(1)}.`,
    "The freed bytes are those of the store. The files of a dropped checkpoint are git objects; git gc removes them.",
    "Files of loops for other tools (.aiwg) follow the rules of `aiwg:` in the config, here and once a day when a loop starts or resumes. The store keeps its own copy.",
    "The worktree of a run that ended more than a day ago is removed; with RUN, at once. Its files are saved as a checkpoint first, unless the newest one has them. `holdfast restore RUN@latest`, or a resume, creates it again at the same place. The branch stays.",
    "A worktree stays if removing it would lose something: ignored files other than unchanged copies of `workspace.copy`, what the set-up made, and dependencies, caches and results of builds by their usual names (node_modules, dist); a nested repository, also below such a name; a detached HEAD; staged changes that the files do not have; refs below refs/worktree/; a file that is too large for a checkpoint; an unfinished merge, rebase or restore. It also stays while a process works in it. --dry-run lists them with the reason. --force removes it in spite of ignored files, nested repositories, a detached HEAD, staged changes and refs.",
    "Runs and journals stay; `holdfast rm` removes a run with its worktree and branch, and gc completes a removal that was interrupted if no work is lost. The daily clean-up removes no worktree.",
  ],
  operands: [{ name: "RUN", about: "only this run", required: false, completes: "run" }],
  consent: "saves",
  flags: {
    "dry-run": { type: "boolean", about: "show what would be kept and dropped, with reasons, and drop nothing" },
    retention: {
      type: "text",
      value: "PRESET",
      about: "use these rules instead of the config's: standard, or loops (newest 5 of a run, 30 days)",
      choices: ["standard", "loops"],
    },
    force: {
      type: "boolean",
      about: "also remove worktrees with ignored files, nested repositories or git state that only they have",
    },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast gc --dry-run", about: "show what would be kept and dropped, with reasons" },
    { line: "holdfast gc --yes", about: "drop without asking, in a script" },
    { line: "holdfast gc fix-login --dry-run", about: "check one run only" },
  ],
  json: '{"plan": {...}, "loops": [{"run", "root", "files", "dropped"}], "worktrees": [{"run", "path", "kept": why it stays or null, "ignored": [files that only it has], "unsaved"}], "dryRun": true} or {"plan": {...}, "loops": [...], "worktrees": [{..., "removed", "savedAs": "RUN@N" or null}], "dryRun": false, "report": {"dropped", "sideWorktrees", "unpinned", "sweep"}}; "removals": [{"run", "reasons"}] is present if a removal was interrupted.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const holdfast = await shell.open({ create: false, writes: !input.on("dry-run") });
  const only = address === undefined ? {} : { run: (await holdfast.resolveRun(address)).id };
  const named = (["standard", "loops"] as const).find((name) => name === input.text("retention"));
  const policy = named === undefined ? {} : { policy: RETENTION_PRESETS[named] };
  const plan = await holdfast.planGc({ ...only, ...policy });
  const loops = await holdfast.formats.planLayoutCleanup(only);
  const scope = { ...only, force: input.on("force"), here: shell.cwd };
  const trees = await holdfast.planWorktreeRemovals(scope);
  if (input.on("dry-run")) {
    shell.print({
      json: () => ({ plan, loops, worktrees: trees, dryRun: true }),
      text: (page) => planText(plan, page) + worktreesText(trees, page) + loopsText(loops, page),
    });
    return "done";
  }
  const asks = dropsOf(plan).length > 0 || trees.some(({ kept }) => kept === null);
  if (!input.on("yes") && asks && !(await decide(shell, plan, trees))) return "needs_you";
  // Before checkpoints are dropped: the checkpoint of a worktree is then the newest, which stays.
  const worktrees = await shell.finish(holdfast.removeWorktrees(trees, scope), { done: worktreesOutcome });
  const report = await shell.finish(holdfast.applyGc(plan), { done: gcOutcome });
  await shell.finish(holdfast.formats.applyLayoutCleanup(loops), { done: () => null });
  const removals = address === undefined ? await completeRemovals(holdfast) : [];
  shell.print({
    json: () => ({ plan, loops, worktrees, dryRun: false, report, ...(removals.length === 0 ? {} : { removals }) }),
    text: () =>
      gcReportText(report) +
      worktreesReportText(worktrees) +
      loopsReportText(loops) +
      removals.map(removalText).join(""),
  });
  return "done";
}

interface CompletedRemoval {
  readonly run: string;
  /** Why it was not completed; empty: it was. */
  readonly reasons: readonly string[];
}

/** Completes interrupted removals, except those that would lose work. */
async function completeRemovals(holdfast: Holdfast): Promise<readonly CompletedRemoval[]> {
  const removals: CompletedRemoval[] = [];
  for (const { run: id, by } of await holdfast.halfRemovedRuns()) {
    const plan = await holdfast.planRemoval(id);
    const reasons = [...plan.reasons, ...plan.forks.map((fork) => `${fork} was forked from it`)];
    if (reasons.length === 0) await holdfast.removeRun(plan, { by });
    removals.push({ run: id, reasons });
  }
  return removals;
}

function removalText({ run: id, reasons }: CompletedRemoval): string {
  if (reasons.length === 0) return `Completed the interrupted removal of ${id}.\n`;
  return `${id} is half removed and stays: ${reasons.join("; ")}.\n`;
}

async function decide(shell: Shell, plan: GcPlan, trees: readonly WorktreeRemoval[]): Promise<boolean> {
  shell.notify(planText(plan, shell.talk) + worktreesText(trees, shell.talk));
  const drops = dropsOf(plan).length;
  const removals = trees.filter(({ kept }) => kept === null).length;
  const worktrees = countText(removals, "worktree");
  const answer = await shell.confirm(
    drops === 0
      ? `Remove ${worktrees}? \`${shell.talk.program} restore\` creates them again.`
      : `Drop ${countText(drops, "checkpoint")}${removals === 0 ? "" : ` and remove ${worktrees}`}? This cannot be undone.`,
  );
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.notify(
      `Nothing was dropped. Set the retention in holdfast.config.yaml; ${shell.talk.program} setup writes one.`,
    );
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Not a terminal: cannot ask whether ${drops === 0 ? "worktrees may be removed" : "checkpoints may be dropped"}`,
    hint: "Check with `holdfast gc --dry-run`, then run `holdfast gc --yes`.",
  });
}

export function planText(plan: GcPlan, page: Page): string {
  const columns = [
    RUN_COLUMN,
    { title: "CHECKPOINTS", shrinkTo: 12 },
    { title: "DO" },
    { title: "FREES", align: "right", optional: true },
    { title: "WHY", shrinkTo: 24, wrap: true },
  ] as const;
  const rows = plan.plans.flatMap(({ run, decisions }) =>
    groupDecisions(decisions).map((group): readonly Cell[] => [
      { text: run },
      { text: rangesText(group.sequences) },
      { text: group.action, style: group.action === "drop" ? "red" : "green" },
      { text: group.action === "drop" ? byteText(group.bytes) : "" },
      { text: group.why },
    ]),
  );
  const table = rows.length === 0 ? "" : `${renderTable({ columns, rows }, page)}\n`;
  const usage = plan.usage.length === 0 ? "" : `${usageText(plan.usage, page)}\n`;
  return table + usage + totalText(plan);
}

/** One line for each worktree, with the reason why it stays; "" if there are none. */
export function worktreesText(trees: readonly WorktreeRemoval[], page: Page): string {
  return trees.map(({ run, path, kept, unsaved }) => treeText(run, path, kept, unsaved ? SAVES : "", page)).join("");
}

const SAVES = ", after its files are saved as a checkpoint";

function treeText(run: string, path: string, kept: string | null, more: string, page: Page): string {
  const label = kept === null ? "remove" : "keep";
  const why = kept === null ? `of ${run}${more}` : `of ${run}: ${kept}`;
  return hangingIndent({ label, labelWidth: "remove".length, text: `${path} ${why}` }, page);
}

function worktreesReportText(trees: readonly RemovedWorktree[]): string {
  return trees
    .map(({ run, path, removed, kept, savedAs }) => {
      const again = savedAs === null ? "" : ` Its files are in ${savedAs}.`;
      const text = removed
        ? `Removed the worktree ${path} of ${run}.${again}`
        : `Kept the worktree ${path} of ${run}: ${kept ?? "it changed meanwhile"}.`;
      return `${escapeText(text)}\n`;
    })
    .join("");
}

/** For a user who pressed Ctrl+C during the clean-up. */
function worktreesOutcome(trees: readonly RemovedWorktree[]): string | null {
  const removed = trees.filter((tree) => tree.removed);
  return removed.length === 0 ? null : `${countText(removed.length, "worktree")} removed`;
}

export function gcReportText(report: GcReport): string {
  const { sweep, dropped } = report;
  const own = new Set(dropped.map(({ run, sequence }) => `refs/holdfast/${run}/${sequence}`));
  const leftOver = report.unpinned.filter((ref) => !own.has(ref)).length;
  const done =
    dropped.length === 0
      ? "Nothing to drop"
      : `Dropped ${countText(dropped.length, "checkpoint")} (${dropped.length === 1 ? "it" : "each"} left a tombstone)`;
  const freed =
    sweep.freedBytes === 0 ? "nothing to free in the store yet" : `freed ${byteText(sweep.freedBytes)} in the store`;
  return `${done}; ${freed}${detailText({ refs: leftOver, sideWorktrees: report.sideWorktrees.length })}.\n${filesText(dropped.length)}`;
}

/** Printed whenever the daily clean-up removed something: nothing is dropped silently. */
export function gcSummary(report: GcReport, page: Page): string {
  const dropped = countText(report.dropped.length, "checkpoint");
  return `Daily clean-up: dropped ${dropped} by retention, freed ${byteText(report.sweep.freedBytes)}.\n  why: ${page.program} events RUN    rules: ${page.program} config`;
}

/** For a user who pressed Ctrl+C during the clean-up. */
export function gcOutcome(report: GcReport): string | null {
  const { length } = report.dropped;
  return length === 0 ? null : `${countText(length, "checkpoint")} ${length === 1 ? "was" : "were"} dropped`;
}

function dropsOf(plan: GcPlan): readonly Extract<RetentionDecision, { readonly action: "drop" }>[] {
  return plan.plans.flatMap(({ decisions }) => decisions.filter((decision) => decision.action === "drop"));
}

function totalText(plan: GcPlan): string {
  const drops = dropsOf(plan);
  const kept = plan.plans.reduce((sum, { decisions }) => sum + decisions.length, 0) - drops.length;
  const freed = drops.reduce((sum, { bytes }) => sum + bytes, 0) + plan.sweep.freedBytes;
  const verdict = drops.length === 0 ? "Nothing to drop" : `Would drop ${countText(drops.length, "checkpoint")}`;
  const frees = freed === 0 ? "" : `, free up to ${byteText(freed)} in the store`;
  const detail = detailText({ refs: plan.danglingRefs.length, sideWorktrees: plan.sideWorktrees.length });
  return `${verdict}, keep ${kept}${frees}${detail}.\n${filesText(drops.length)}`;
}

function filesText(dropped: number): string {
  if (dropped === 0) return "";
  return `${dropped === 1 ? "Its" : "Their"} files are git objects: git gc removes them.\n`;
}

function detailText(left: { readonly refs: number; readonly sideWorktrees: number }): string {
  const { refs, sideWorktrees } = left;
  const parts = [
    ...(refs > 0 ? [`${countText(refs, "ref")} orphaned by an interrupted save`] : []),
    ...(sideWorktrees > 0 ? [`${countText(sideWorktrees, "worktree")} orphaned by a run's side worktrees`] : []),
  ];
  return parts.length === 0 ? "" : `; also ${parts.join(", ")}`;
}

interface Group {
  readonly action: RetentionDecision["action"];
  readonly why: string;
  readonly sequences: readonly number[];
  readonly bytes: number;
}

/** One line for each decision and reason, even if it covers a hundred automatic checkpoints. */
export function groupDecisions(decisions: readonly RetentionDecision[]): readonly Group[] {
  const groups = new Map<string, Group>();
  for (const decision of decisions) {
    const key = `${decision.action} ${decision.why}`;
    const known = groups.get(key) ?? { action: decision.action, why: decision.why, sequences: [], bytes: 0 };
    const bytes = known.bytes + (decision.action === "drop" ? decision.bytes : 0);
    groups.set(key, { ...known, sequences: [...known.sequences, decision.sequence], bytes });
  }
  return [...groups.values()].toSorted((a, b) => (a.sequences[0] ?? 0) - (b.sequences[0] ?? 0));
}

/** The files of loops for other tools; "" if there are none. */
export function loopsText(plans: readonly LayoutCleanupPlan[], page: Page): string {
  const columns = [
    { ...RUN_COLUMN, title: "LOOP" },
    { title: "FILE", shrinkTo: 13 },
    { title: "DO" },
    { title: "FREES", align: "right", optional: true },
    { title: "WHY", shrinkTo: 24, wrap: true },
  ] as const;
  const rows = plans.flatMap(({ run, files }) =>
    files.map(({ path, action, bytes, why }): readonly Cell[] => [
      { text: run },
      { text: (path.split("/").at(-1) ?? path).replace(/\.json(?:\.gz)?$/, "") },
      { text: action, style: action === "drop" ? "red" : "green" },
      { text: action === "drop" ? byteText(bytes) : "" },
      { text: why },
    ]),
  );
  if (rows.length === 0) return "";
  const files = plans.flatMap((plan) => plan.files);
  const drops = files.filter(({ action }) => action === "drop").length;
  return `\n${renderTable({ columns, rows }, page)}\nIn ${placesText(plans)}: would remove ${countText(drops, "file")}, keep ${files.length - drops}.\n`;
}

export function loopsReportText(plans: readonly LayoutCleanupPlan[]): string {
  const drops = plans.flatMap(({ files }) => files.filter(({ action }) => action === "drop")).length;
  return drops === 0 ? "" : `Removed ${countText(drops, "file")} in ${placesText(plans)}.\n`;
}

function placesText(plans: readonly LayoutCleanupPlan[]): string {
  return [...new Set(plans.map(({ root }) => escapeText(join(root, ".aiwg"))))].join(" and ");
}

import type { RestoreReport, RunRestorePlan } from "../../../app.ts";
import type { RunSummary } from "../../../core/run/run.ts";
import type { FileChange, RestorePlan } from "../../../ports/workspace.ts";
import { countText } from "../../output/count-text.ts";
import { truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { leftOutLine, reasonText } from "../../output/left-out.ts";
import type { LeftOut } from "../../output/left-out.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { inScope } from "../../path-scope.ts";
import { relativeTime } from "../../output/relative-time.ts";

/** A plan, and what the checkpoint was taken without. */
export interface Shown {
  readonly plan: RunRestorePlan;
  readonly lost: readonly LeftOut[];
}

export function planText({ plan, lost }: Shown, page: Page): string {
  const { target, files } = plan;
  const name = target.name === null ? "" : ` "${escapeText(target.name)}"`;
  const head = `Restore ${paint(page, "bold", escapeText(target.id))}${name}, taken ${relativeTime(target.createdAt, page.now)}\n`;
  if (files === null) return `${head}  state only: no files are saved in it, or there is no worktree\n`;
  const lines = [
    `  in ${escapeText(files.root)}`,
    `  ${summary(files)}`,
    `  ${plan.paths === null ? "the state comes back too" : "only these paths; the state stays"}`,
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
      `    ${paint(page, "red", "!")} ${truncate(escapeText(`${path} stands in the way: no checkpoint holds it`), page.width - 6)}`,
    );
  return `${head}${lines.join("\n")}\n${exposedText(files, page)}${lostText(lost, page)}`;
}

/** They may be secrets, or as large as a whole node_modules. */
function exposedText({ exposed }: RestorePlan, page: Page): string {
  const [first] = exposed;
  if (first === undefined) return "";
  const more = exposed.length === 1 ? "" : ` and ${exposed.length - 1} more`;
  const line = `no longer ignored, so in the next checkpoint: ${first}${more}`;
  return `    ${paint(page, "yellow", "!")} ${truncate(escapeText(line), page.width - 6)}\n`;
}

/** Nothing is written for it: a checkpoint that says nothing new would only hide those that do. */
export function nothingText(plan: RunRestorePlan): string {
  const { id } = plan.target;
  return plan.paths === null
    ? `Nothing to restore: ${escapeText(id)} is the newest checkpoint, and the files are as it has them.\n`
    : `Nothing to restore: these files are as ${escapeText(id)} has them.\n`;
}

/** How the run is carried on from where it stands now; nothing for one that no workflow carries. */
export function goOnText({ id, workflow, state }: RunSummary, page: Page): string {
  if (workflow === "manual" || workflow === "none") return "";
  const ended = state.kind === "fatal" || state.kind === "done";
  const line = `${page.program} resume ${escapeText(id)}${ended ? "@latest --force" : ""}`;
  return `Go on with: ${paint(page, "bold", line)}\n`;
}

export function reportText(params: Shown & { readonly report: RestoreReport }, page: Page): string {
  const { plan, report } = params;
  const files =
    plan.files === null
      ? "state only"
      : report.written + report.removed === 0
        ? "the files were so already"
        : `${countText(report.written, "file")} written, ${report.removed} removed`;
  const lines = [
    `Restored ${paint(page, "bold", escapeText(plan.target.id))}: ${files}. Saved as ${escapeText(report.checkpoint.id)}.`,
  ];
  if (report.undo !== null)
    lines.push(`To undo: ${paint(page, "bold", `${page.program} restore ${escapeText(report.undo.id)}`)}`);
  const exposed = plan.files === null ? "" : exposedText(plan.files, page);
  return `${lines.join("\n")}\n${exposed}${lostText(params.lost, page)}`;
}

function lostText(lost: readonly LeftOut[], page: Page): string {
  const lines = lost.slice(0, SHOWN).map((left) => leftOutLine(left, "does not come back", page, "    "));
  const more = lost.length - lines.length;
  return lines.join("") + (more > 0 ? `    … and ${more} more (all with --json)\n` : "");
}

const SHOWN = 20;

function summary(files: RestorePlan): string {
  if (files.changes.length === 0) return "files are already as they were then";
  const counts = { write: 0, create: 0, remove: 0, mode: 0 };
  for (const change of files.changes) counts[change.kind] += 1;
  const parts = [
    ...(counts.write > 0 ? [`${counts.write} overwritten`] : []),
    ...(counts.create > 0 ? [`${counts.create} created`] : []),
    ...(counts.remove > 0 ? [`${counts.remove} removed`] : []),
    ...(counts.mode > 0 ? [`${counts.mode} with another mode`] : []),
  ];
  return `${countText(files.changes.length, "file")} to change: ${parts.join(", ")}`;
}

const MARKS: Readonly<Record<FileChange["kind"], { readonly mark: string; readonly style: Style }>> = {
  write: { mark: "M", style: "yellow" },
  create: { mark: "A", style: "green" },
  remove: { mark: "D", style: "red" },
  mode: { mark: "m", style: "dim" },
};

export function changeLine(change: FileChange, page: Page): string {
  const { mark, style } = MARKS[change.kind];
  return `    ${paint(page, style, mark)} ${truncate(escapeText(change.path), page.width - 6)}`;
}

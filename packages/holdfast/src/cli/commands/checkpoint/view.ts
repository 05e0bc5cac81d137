import type { SavePlan } from "../../../app.ts";
import type { CheckpointSummary, Planes } from "../../../core/checkpoint/checkpoint.ts";
import type { Diff } from "../../../ports/workspace.ts";
import type { Holder } from "./ask-holder.ts";
import { byteText } from "../../output/byte-text.ts";
import { countText } from "../../output/count-text.ts";
import { truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { leftOutLine } from "../../output/left-out.ts";
import type { LeftOut } from "../../output/left-out.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { unfinishedRestoreText } from "../../output/unfinished-restore.ts";

export interface Saved {
  readonly checkpoint: CheckpointSummary;
  readonly planes: Planes;
  readonly started: boolean;
  readonly leftOut: readonly LeftOut[];
  readonly unfinishedRestore: string | null;
  /** Who saved it for us; null: we did. */
  readonly savedBy: Holder | null;
  /** Files were wanted, and this repository is bare. */
  readonly noWorktree: boolean;
}

export function savedText(saved: Saved, page: Page): string {
  const { checkpoint, leftOut, unfinishedRestore } = saved;
  const name = checkpoint.name === null ? "" : ` "${escapeText(checkpoint.name)}"`;
  const started = saved.started ? `Started run ${paint(page, "bold", escapeText(checkpoint.run))}.\n` : "";
  const bare = saved.noWorktree ? "There is no worktree here (a bare repository), so only state is saved.\n" : "";
  const line = `Saved ${paint(page, "bold", escapeText(checkpoint.id))}${name} (${planesText(saved.planes)}; ${byteText(checkpoint.size.added)} added to the store)\n`;
  const by = saved.savedBy === null ? "" : `Taken by ${ownerText(saved.savedBy)}, which carries the run.\n`;
  const unfinished = unfinishedRestoreText({ id: checkpoint.run, unfinishedRestore }, page);
  return `${started}${bare}${line}${by}${notSaved(leftOut, page)}${unfinished}`;
}

function notSaved(leftOut: readonly LeftOut[], page: Page): string {
  const lines = leftOut.slice(0, SHOWN).map((left) => leftOutLine(left, "not saved", page));
  return lines.join("") + moreText(leftOut.length - lines.length);
}

function planesText(planes: Planes): string {
  if (planes.files === null) return "state only";
  return hasState(planes) ? "files and state" : "files";
}

/** What the run itself put there; the empty planes that every checkpoint has are nothing to speak of. */
function hasState({ context, position, conversation, extensions }: Planes): boolean {
  const kept = [context.values, context.tokens, position.attempts, extensions];
  return kept.some((values) => Object.keys(values).length > 0) || position.stage !== "none" || conversation !== null;
}

export interface ShownPlan {
  readonly plan: SavePlan | null;
  readonly changes: Diff["files"];
  readonly started: boolean;
  readonly run: string | null;
  /** Who would be asked for it; null: nobody has the run now. */
  readonly asks: Holder | null;
  readonly leftOut: readonly LeftOut[];
}

export function planText(shown: ShownPlan, page: Page): string {
  const { plan, changes } = shown;
  if (plan === null) {
    const named = shown.run === null ? "a new run" : `the new run ${paint(page, "bold", escapeText(shown.run))}`;
    return `Would start ${named}; its first checkpoint has the files as they are now.\n${notSaved(shown.leftOut, page)}`;
  }
  const id = paint(page, "bold", escapeText(`${plan.run}@${plan.sequence}`));
  const lines = changes.slice(0, SHOWN).map(({ path, status }) => {
    const { mark, style } = MARKS[status];
    return `  ${paint(page, style, mark)} ${truncate(escapeText(path), page.width - 4)}\n`;
  });
  const verb = shown.asks === null ? "Would save" : `Would ask ${ownerText(shown.asks)} for`;
  return `${verb} ${id}: ${filesText(plan, changes.length)}\n${lines.join("")}${moreText(changes.length - lines.length)}${notSaved(shown.leftOut, page)}`;
}

function ownerText({ label, pid, host }: Holder): string {
  return `${escapeText(label)} (pid ${pid} on ${escapeText(host)})`;
}

const SHOWN = 20;
const MARKS: Readonly<Record<Diff["files"][number]["status"], { readonly mark: string; readonly style: Style }>> = {
  added: { mark: "A", style: "green" },
  modified: { mark: "M", style: "yellow" },
  deleted: { mark: "D", style: "red" },
  renamed: { mark: "R", style: "cyan" },
  type_changed: { mark: "T", style: "yellow" },
};

function filesText(plan: SavePlan, changes: number): string {
  if (plan.files === null) return "state only";
  if (!plan.files.changedSinceLast) return "files as in the last checkpoint";
  return changes === 0 ? "files" : `${countText(changes, "file")} changed since the last checkpoint`;
}

function moreText(hidden: number): string {
  return hidden > 0 ? `  … and ${hidden} more (all with --json)\n` : "";
}

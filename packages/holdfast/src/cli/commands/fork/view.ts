import type { RunSummary } from "../../../core/run/run.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";

export function planText(
  plan: { readonly from: string; readonly as: string | null; readonly worktree: boolean },
  page: Page,
): string {
  const id = plan.as === null ? "with a new id" : paint(page, "bold", escapeText(plan.as));
  const where = plan.worktree ? "with its own worktree and branch" : "without a worktree";
  return `Would start run ${id} from ${escapeText(plan.from)}, ${where}.\n`;
}

/** What a workflow carries is gone on with; what is saved by hand is saved again. */
export function nextText({ id, workflow }: Pick<RunSummary, "id" | "workflow">, page: Page): string {
  return workflow === "manual"
    ? `Save in it with: ${page.program} checkpoint --run ${id}`
    : `Go on with: ${page.program} resume ${id}`;
}

export function forkedText(
  shown: { readonly run: RunSummary; readonly worktree: string | null; readonly from: string },
  page: Page,
): string {
  const id = escapeText(shown.run.id);
  const line = `Forked ${escapeText(shown.from)} as ${paint(page, "bold", id)}.\n`;
  if (shown.worktree === null) return `${line}It has no worktree: its files are in the checkpoint.\n`;
  return `${line}Its files are in ${escapeText(shown.worktree)}\n`;
}

import type { ImportPlan } from "../../../app.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";

const SHOWN = 10;

/** "plan": would be made; "done": was made; "same": was there already. */
export function importText(plan: ImportPlan, how: "plan" | "done" | "same", page: Page): string {
  const run = paint(page, "bold", escapeText(plan.run));
  const count = countText(plan.checkpoints.length, "checkpoint");
  const what = `${count} of ${plan.format}`;
  if (plan.before === "own") return ownText(plan, { run, what }, page);
  const lines = [headline(plan, how, { run, what })];
  const hidden = Math.max(0, plan.checkpoints.length - SHOWN);
  if (hidden > 0) lines.push(`  ${hidden} older ones`);
  for (const [at, { id, createdAt, planes }] of plan.checkpoints.entries()) {
    if (at < hidden) continue;
    const { stage, iteration } = planes.position;
    const parts = [
      stage,
      ...(iteration > 0 ? [`iteration ${iteration}`] : []),
      createdAt ?? "no time",
      ...(id === null ? [] : [id]),
    ];
    lines.push(`  ${escapeText(`${plan.run}@${at + 1}`)}  ${parts.map(escapeText).join(", ")}`);
  }
  if (plan.worktree !== null) lines.push(`Its files are in ${escapeText(plan.worktree)}`);
  for (const { path, text } of plan.remarks) lines.push(...told(paint(page, "dim", "note:"), `${path} ${text}`, page));
  for (const { name, error } of plan.broken)
    lines.push(...told(paint(page, "red", "left out:"), `${name}: ${error.message}`, page));
  return `${lines.join("\n")}\n`;
}

/** A second run of the same work is what hardly anybody means. */
function ownText(plan: ImportPlan, { run, what }: { readonly run: string; readonly what: string }, page: Page): string {
  const second = `${page.program} fork ${escapeText(plan.run)}@latest`;
  return `Nothing to do: ${run} of this store wrote these files itself (${what}).\nFor a second run of it: ${second}, or name one with --run.\n`;
}

function told(head: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(escapeText(text.trim()), Math.min(page.width, 100) - 10);
  return [`${head} ${first}`, ...rest.map((line) => `    ${line}`)];
}

function headline(
  plan: ImportPlan,
  how: "plan" | "done" | "same",
  { run, what }: { readonly run: string; readonly what: string },
): string {
  if (how === "done") return `Imported ${what} as ${run}.`;
  if (how === "same" || plan.before === "whole") return `Nothing to do: imported before as ${run}, ${what}.`;
  return plan.before === "part" ? `Would finish the import of ${what} as ${run}:` : `Would import ${what} as ${run}:`;
}

export function importDocument(plan: ImportPlan): object {
  const { run, format, workflow, work, worktree, remarks, before } = plan;
  return {
    run,
    format,
    workflow,
    work,
    worktree,
    checkpoints: plan.checkpoints.map(({ id, createdAt, planes }, at) => {
      const { stage, iteration } = planes.position;
      return { sequence: at + 1, id, createdAt, stage, iteration };
    }),
    remarks,
    broken: plan.broken.map(({ name, error }) => ({ name, code: error.code, message: error.message })),
    before,
  };
}

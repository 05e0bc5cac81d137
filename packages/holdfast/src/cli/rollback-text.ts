import type { Rejected, RollbackChoice } from "../app.ts";
import { hanging } from "./output/hanging.ts";
import { paint } from "./output/page.ts";
import type { Page } from "./output/page.ts";
import { rangesText } from "./output/ranges-text.ts";

/** What went wrong, where to go back to and why, and why not to any other. */
export function rollbackText(run: string, choice: RollbackChoice, page: Page): string {
  const effects =
    choice.kind === "back"
      ? [
          ...choice.adopted.map((one) => ({ ...one, said: "stays done, and is found again on the way forward" })),
          ...choice.accepted.map((one) => ({ ...one, said: `is gone back behind, as asked: ${one.unsafe}` })),
        ]
      : [];
  return [
    line("cause", `${choice.cause.why}.`, page),
    line(choice.kind === "back" ? "go back" : choice.kind === "stay" ? "stay" : "stop", verdict(run, choice), page),
    ...effects.map(({ kind, target, said }) => line("effect", `${kind} on ${target} ${said}.`, page)),
    rejectedText(choice.rejected, page),
  ].join("");
}

function verdict(run: string, choice: RollbackChoice): string {
  switch (choice.kind) {
    case "back":
      return `to ${run}@${choice.chosen}: ${choice.why}.`;
    case "stay":
    case "none":
      return `${choice.why}.`;
  }
}

const LABELS = 8;

function line(label: string, text: string, page: Page): string {
  return hanging({ label, labelWidth: LABELS, text }, page).replace(label, paint(page, "bold", label));
}

/** Newest first; those that stand side by side and have the same reason are one line. */
function rejectedText(rejected: readonly Rejected[], page: Page): string {
  const groups: { readonly sequences: number[]; readonly why: string }[] = [];
  for (const { sequence, why } of rejected) {
    const last = groups.at(-1);
    if (last?.why === why) last.sequences.push(sequence);
    else groups.push({ sequences: [sequence], why });
  }
  if (groups.length === 0) return "";
  const rows = groups.map(({ sequences, why }) => ({ label: `  ${rangesText(sequences)}`, why }));
  const labelWidth = Math.max(LABELS, ...rows.map(({ label }) => label.length));
  const shown = rows.length > SHOWN + 1 ? rows.slice(0, SHOWN) : rows;
  const more = rows.length === shown.length ? "" : `  … and ${rows.length - shown.length} more (all with --json)\n`;
  return `Why not the others:\n${shown.map(({ label, why }) => hanging({ label, labelWidth, text: why }, page)).join("")}${more}`;
}

const SHOWN = 20;

/** Lets the user pick a checkpoint, and explains which checkpoint a rollback chose and why. */
import type { CheckpointPreview } from "@holdfast/core/find-rollback";
import type { Rejected, RollbackChoice } from "@holdfast/core/rollback";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError } from "@holdfast/platform/error";
import type { Shell } from "./command.ts";
import { type Page, paint } from "./output/page.ts";
import { rangesText, relativeTime, scoreText } from "./output/quantities.ts";
import { stageText } from "./output/run-text.ts";
import { type Cell, renderTable } from "./output/table.ts";
import { hangingIndent } from "./output/text.ts";

/** As many as fit on a screen together with the question. */
const SHOWN = 18;

/** Shows the newest checkpoints and asks for one. null: the user cancelled. */
export async function pickCheckpoint(
  shell: Shell,
  handle: RunHandle,
  params: { /** The command that names a checkpoint instead, if the user cannot be asked. */ readonly instead: string },
): Promise<number | null> {
  if (!shell.canAsk) {
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `Not a terminal: cannot ask for a checkpoint of ${handle.id}`,
      hint: `Choose one of \`holdfast list ${handle.id}\`, then: ${params.instead}`,
    });
  }
  const [previews, advice] = await Promise.all([handle.preview(SHOWN), handle.planRollback()]);
  if (previews.length === 0) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${handle.id} has no checkpoint yet`,
      hint: "Save one with `holdfast checkpoint`.",
    });
  }
  shell.notify(previewText(previews, advice, shell.talk));
  const known = new Set((await Array.fromAsync(handle.checkpoints())).map(({ sequence }) => sequence));
  for (;;) {
    const answer = await shell.ask("Number of the checkpoint, or Enter for none:", "");
    if (answer === "") return null;
    const sequence = Number(answer.replace(/^.*@/, ""));
    if (known.has(sequence)) return sequence;
    shell.notify(`There is no checkpoint ${answer}; \`${shell.talk.program} list ${handle.id}\` shows all.`);
  }
}

export function previewText(previews: readonly CheckpointPreview[], advice: RollbackChoice, page: Page): string {
  const columns = [
    { title: "NO", align: "right" },
    { title: "WHEN" },
    { title: "STAGE", shrinkTo: 8, optional: true },
    { title: "SCORE", align: "right", optional: true },
    { title: "TRIGGER", expendable: 2 },
    { title: "FILES SINCE" },
    { title: "EFFECTS SINCE", shrinkTo: 14, optional: true, expendable: 3 },
    { title: "NOTE", shrinkTo: 10, optional: true, expendable: 1 },
  ] as const;
  const rows = previews.map(({ checkpoint, files, effects }): readonly Cell[] => [
    { text: String(checkpoint.sequence), style: "bold" },
    { text: relativeTime(checkpoint.createdAt, page.now), style: "dim" },
    { text: stageText(checkpoint) },
    { text: checkpoint.score === null ? "" : scoreText(checkpoint.score) },
    { text: checkpoint.trigger },
    { text: filesText(files) },
    { text: effectsText(effects) },
    noteCell(checkpoint, advice),
  ]);
  return renderTable({ columns, rows }, page);
}

function filesText(files: CheckpointPreview["files"]): string {
  if (files === null) return "?";
  const { added, modified, removed } = files;
  if (added + modified + removed === 0) return "none";
  return [
    ...(modified > 0 ? [`${modified} changed`] : []),
    ...(added > 0 ? [`${added} new`] : []),
    ...(removed > 0 ? [`${removed} gone`] : []),
  ].join(", ");
}

function effectsText(effects: readonly string[]): string {
  const [first] = effects;
  if (first === undefined) return "";
  return effects.length === 1 ? first : `${effects.length}: ${first}, …`;
}

function noteCell(checkpoint: CheckpointPreview["checkpoint"], advice: RollbackChoice): Cell {
  const advised = checkpoint.sequence === advice.chosen;
  const no = advice.rejected.find(({ sequence }) => sequence === checkpoint.sequence);
  const mark = advised ? "advised" : no === undefined || no.kind === "older" ? "" : no.kind.replaceAll("_", " ");
  const name = checkpoint.name === null ? "" : `"${checkpoint.name}"`;
  const text = [mark, name].filter((one) => one !== "").join(", ");
  return advised ? { text, style: "green" } : { text };
}

/** What failed, which checkpoint to go back to and why, and why not to any other. */
export function rollbackText(run: string, choice: RollbackChoice, page: Page): string {
  const effects =
    choice.kind === "back"
      ? [
          ...choice.adopted.map((one) => ({ ...one, said: "stays done, and is not repeated" })),
          ...choice.accepted.map((one) => ({ ...one, said: `is passed, as requested: ${one.unsafe}` })),
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
  return hangingIndent({ label, labelWidth: LABELS, text }, page).replace(label, paint(page, "bold", label));
}

/** Newest first. Neighbours with the same reason share one line. */
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
  const shown = rows.length > REJECTED_SHOWN + 1 ? rows.slice(0, REJECTED_SHOWN) : rows;
  const more = rows.length === shown.length ? "" : `  … and ${rows.length - shown.length} more (all with --json)\n`;
  return `Why not the others:\n${shown.map(({ label, why }) => hangingIndent({ label, labelWidth, text: why }, page)).join("")}${more}`;
}

const REJECTED_SHOWN = 20;

/** No checkpoint is safe: names the obstacle, and what the user can do about it. */
export function noRollbackError(
  run: string,
  choice: Extract<RollbackChoice, { readonly kind: "none" }>,
): HoldfastError {
  const [effect] = choice.effects;
  const hint =
    effect === undefined
      ? `\`holdfast restore ${run} --smart --dry-run\` gives the reasons; choose a checkpoint with --pick.`
      : `Handle ${effect.kind} on ${effect.target} first (${effect.unsafe}); then pass --past-effects.`;
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: choice.why,
    hint,
    retry: "ask",
    data: { run, rollback: choice },
  });
}

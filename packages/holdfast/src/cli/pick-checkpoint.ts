import type { CheckpointPreview, RollbackChoice, RunHandle } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import type { Shell } from "./command.ts";
import { stageText } from "./commands/list/view.ts";
import type { Page } from "./output/page.ts";
import { relativeTime } from "./output/relative-time.ts";
import { renderTable } from "./output/table.ts";
import type { Cell } from "./output/table.ts";
import { scoreText } from "./output/score-text.ts";

/** As many as fit on a screen with the question. */
const SHOWN = 18;

/** Shows the newest checkpoints with what is known of each, and asks for one. null: the person changed their mind. */
export async function pickCheckpoint(
  shell: Shell,
  handle: RunHandle,
  params: { /** How to name one instead, where nobody can be asked. */ readonly instead: string },
): Promise<number | null> {
  if (!shell.canAsk) {
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `There is nobody to ask which checkpoint of ${handle.id} is meant`,
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
  shell.say(previewText(previews, advice, shell.talk));
  const known = new Set((await Array.fromAsync(handle.checkpoints())).map(({ sequence }) => sequence));
  for (;;) {
    const answer = await shell.ask("Which one? Its number, or Enter for none:", "");
    if (answer === "") return null;
    const sequence = Number(answer.replace(/^.*@/, ""));
    if (known.has(sequence)) return sequence;
    shell.say(`There is no checkpoint ${answer}; \`${shell.talk.program} list ${handle.id}\` shows all.`);
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
  const told = advised ? "advised" : no === undefined || no.kind === "older" ? "" : no.kind.replaceAll("_", " ");
  const name = checkpoint.name === null ? "" : `"${checkpoint.name}"`;
  const text = [told, name].filter((one) => one !== "").join(", ");
  return advised ? { text, style: "green" } : { text };
}

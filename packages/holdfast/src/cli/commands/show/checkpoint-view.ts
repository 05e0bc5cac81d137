import type { ConversationPlane, Checkpoint, FilesPlane, Planes } from "../../../core/checkpoint/checkpoint.ts";
import type { Amounts } from "../../../core/position/position.ts";
import { byteText } from "../../output/byte-text.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { costText, tokensSpentText } from "../../output/spent-text.ts";
import { truncate } from "../../output/display-width.ts";
import { leftOutLine, leftOutOf } from "../../output/left-out.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { stageText } from "../list/view.ts";
import { fieldsText, momentText, sectionText } from "./fields.ts";
import { scoreText } from "../../output/score-text.ts";

export function checkpointText(checkpoint: Checkpoint, page: Page): string {
  const { planes } = checkpoint;
  const name = checkpoint.name === null ? "" : `  ${escapeText(checkpoint.name)}`;
  const tags = checkpoint.tags.map((tag) => `  ${paint(page, "yellow", `@${escapeText(tag)}`)}`).join("");
  const head = fieldsText(
    [
      ["damaged", checkpoint.quarantined ? `set aside: nothing resumes from it (${page.program} verify)` : null],
      ["taken", momentText(checkpoint.createdAt, page)],
      ["trigger", checkpoint.trigger],
      ["parent", checkpoint.parent?.id ?? null],
      [
        "size",
        `${byteText(checkpoint.size.logical)} besides the files, ${byteText(checkpoint.size.added)} added to the store`,
      ],
      ["digest", checkpoint.digest],
    ],
    page,
  );
  return [
    `${paint(page, "bold", escapeText(checkpoint.id))}${tags}${name}\n`,
    head,
    sectionText(
      "Files",
      planes.files === null ? "  not saved in this checkpoint\n" : filesText(planes.files, page),
      page,
    ),
    sectionText("Position", positionText(planes, page), page),
    sectionText("State", stateText(planes, page), page),
    sectionText("Conversation", conversationText(planes, page), page),
    sectionText("Effects", effectsText(planes, page), page),
    sectionText("Inputs", inputsText(planes, page), page),
    sectionText("Config", configText(planes, page), page),
  ].join("");
}

function filesText(files: FilesPlane, page: Page): string {
  const fields = fieldsText(
    [
      ["worktree", files.worktree],
      ["branch", files.branch?.replace(/^refs\/heads\//, "") ?? "(detached)"],
      ["head", files.head === null ? "(no commits)" : files.head.slice(0, 12)],
      ["tree", files.tree.slice(0, 12)],
      ["in progress", files.operation],
      ["changes", `${countText(files.artifactCount, "file")} against HEAD`],
    ],
    page,
    "  ",
  );
  const shown = files.artifacts.slice(0, SHOWN).map(({ path, status }) => lineText(MARKS[status], path, page));
  const hidden = files.artifactCount - shown.length;
  const more = hidden > 0 ? [`    … and ${hidden} more\n`] : [];
  const skipped = leftOutOf(files).map((left) => leftOutLine(left, "not saved", page, "    "));
  return [fields, ...shown, ...more, ...skipped].join("");
}

const SHOWN = 10;
const MARKS: Readonly<
  Record<FilesPlane["artifacts"][number]["status"], { readonly mark: string; readonly style: Style }>
> = {
  created: { mark: "A", style: "green" },
  modified: { mark: "M", style: "yellow" },
  deleted: { mark: "D", style: "red" },
  unchanged: { mark: "=", style: "dim" },
};

function lineText(sign: { readonly mark: string; readonly style: Style }, text: string, page: Page): string {
  return `    ${paint(page, sign.style, sign.mark)} ${truncate(escapeText(text), page.width - 6)}\n`;
}

function positionText({ position }: Planes, page: Page): string {
  return fieldsText(
    [
      ["workflow", position.workflow],
      ["stage", stageText(position)],
      ["score", position.score === null ? null : scoreText(position.score)],
      ["best", position.best === null ? null : `${scoreText(position.best.score)} at @${position.best.sequence}`],
      ["attempts", recordText(position.attempts)],
      ["streaks", recordText(position.streaks)],
      ["spent", amountsText(position.budget.spent)],
      [
        "graph",
        position.graph === null ? null : `${position.graph.id}, ${countText(position.graph.nodes.length, "node")}`,
      ],
      ["feedback", position.feedback],
    ],
    page,
    "  ",
  );
}

function stateText({ context }: Planes, page: Page): string {
  const keys = Object.keys(context.values);
  const shown = keys.length === 0 ? "empty" : `${countText(keys.length, "value")}: ${keys.join(", ")}`;
  return fieldsText(
    [
      ["values", shown],
      ["tokens", recordText(context.tokens)],
    ],
    page,
    "  ",
  );
}

function conversationText({ conversation }: Planes, page: Page): string {
  if (conversation === null) return "";
  return fieldsText(
    [
      ["agent", conversation.agent],
      ["session", conversation.session],
      ["transcript", transcriptText(conversation.transcript)],
      ["last", conversation.lastMessage],
    ],
    page,
    "  ",
  );
}

function transcriptText(transcript: ConversationPlane["transcript"]): string | null {
  return transcript === null ? null : `${byteText(transcript.bytes)}, ${transcript.digest.slice(0, 12)}`;
}

function effectsText({ effects }: Planes, page: Page): string {
  if (effects.pending.length === 0) return "";
  return fieldsText([["in flight", effects.pending.join(", ")]], page, "  ");
}

function inputsText({ inputs }: Planes, page: Page): string {
  const { issue } = inputs;
  return fieldsText(
    [
      ["issue", issue === null ? null : `#${issue.number} ${issue.title} (${issue.state})`],
      ["task", inputs.task],
      ["base", inputs.base],
      ["plan", inputs.plan?.path ?? null],
    ],
    page,
    "  ",
  );
}

function configText({ config }: Planes, page: Page): string {
  if (config.agent === null && config.model === null) return "";
  return fieldsText(
    [
      ["agent", config.agent],
      ["model", config.model],
      ["mode", config.seed === null ? config.mode : `${config.mode} (seed ${config.seed})`],
      ["tools", config.tools.join(", ")],
    ],
    page,
    "  ",
  );
}

function recordText(record: Readonly<Record<string, number>>): string {
  return Object.entries(record)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}

function amountsText(spent: Amounts): string | null {
  const tokens = tokensSpentText(spent);
  const cost = costText(spent);
  const parts = [
    ...(tokens === null ? [] : [tokens]),
    ...(cost === null ? [] : [cost]),
    ...(spent.milliseconds > 0 ? [`${Math.round(spent.milliseconds / 1000)} s`] : []),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}

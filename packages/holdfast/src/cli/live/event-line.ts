import type { ProgressEvent } from "../../app.ts";
import { verdictText } from "../../core/error-policy/call-errors.ts";
import { belongsToGraph } from "../../core/graph/graph-names.ts";
import { graphMoveText } from "../../core/graph/graph-words.ts";
import { escapeText, escapeWords } from "../output/escape-text.ts";
import { paint } from "../output/page.ts";
import type { Page } from "../output/page.ts";
import { exactTime } from "../output/relative-time.ts";
import { actionText } from "./action-text.ts";
import { scoreText } from "../output/score-text.ts";

/** What is worth a line that stays; null for the rest. One line, whatever the texts in it hold. */
export function eventLine(event: ProgressEvent, page: Pick<Page, "color" | "offset">): string | null {
  const text = eventText(event, page);
  if (text === null) return null;
  const time = exactTime(event.at, page.offset).slice(11, 19);
  return `${paint(page, "dim", time)}  ${text}\n`;
}

function eventText(event: ProgressEvent, page: Pick<Page, "color">): string | null {
  switch (event.kind) {
    case "started":
      return `${escapeText(event.run)} ${event.resumed ? "goes on" : "starts"} in ${place(event)}`;
    case "stage_entered":
      return paint(page, "bold", place(event));
    case "stage_ended": {
      const score = event.score === null ? "" : ` (score ${scoreText(event.score)})`;
      const reason = event.reason === "" ? "" : `: ${escapeWords(event.reason)}`;
      return `  ${escapeText(event.event)}${score}${reason}`;
    }
    case "step_finished":
      // A graph has dozens of steps for a node, and tells of its nodes itself.
      return event.replayed && !belongsToGraph(event.step) ? `  ${escapeText(event.step)} was finished before` : null;
    case "step_failed": {
      const again =
        event.retryAt === null || event.verdict?.action === "fallback"
          ? ""
          : `; again at ${event.retryAt.slice(11, 19)} UTC`;
      const verdict = event.verdict === undefined ? "" : `; ${escapeWords(verdictText(event.verdict))}`;
      return `  ${paint(page, "yellow", "!")} ${escapeText(event.step)}: ${escapeWords(event.reason)}${again}${verdict}`;
    }
    case "agent": {
      const action = event.event.kind === "tool" ? actionText(event.event) : null;
      return action === null ? null : `  ${paint(page, "dim", escapeText(action))}`;
    }
    case "effect":
      return event.what === "intended" ? null : `  ${effectText(event)}`;
    case "budget":
      return `  ${paint(page, "yellow", escapeWords(event.text))}`;
    case "note":
      return `  ${escapeWords(event.text)}`;
    case "graph_moved":
      return `  ${escapeWords(event.events.map(graphMoveText).join(", "))}`;
    case "findings":
    case "step_started":
    case "checkpoint":
    case "parked":
    case "ended":
      return null;
  }
}

function place(at: { readonly stage: string; readonly iteration: number }): string {
  return escapeText(at.iteration > 0 ? `${at.stage} #${at.iteration}` : at.stage);
}

function effectText(event: Extract<ProgressEvent, { readonly kind: "effect" }>): string {
  // "push" of "issue-42/pr/push.6": the rest stands in the lines above.
  const purpose = escapeText((event.key.split("/").at(-1) ?? event.key).replace(/\.\d+$/, ""));
  switch (event.what) {
    case "intended":
    case "acted":
      return `${purpose} done`;
    case "adopted":
      return `${purpose} was there already, taken over`;
    case "failed":
      return `${purpose} refused`;
    case "unknown":
      return `${purpose}: not known whether it happened`;
  }
}

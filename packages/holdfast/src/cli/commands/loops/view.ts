import type { Loops, Stood } from "../../../app.ts";
import { priorityText } from "../../../core/run/priority.ts";
import type { Page } from "../../output/page.ts";
import { relativeTime } from "../../output/relative-time.ts";
import { standingWord } from "../../output/standing-word.ts";
import { renderTable } from "../../output/table.ts";
import { stageText, workText } from "../list/view.ts";

/** Nothing where there are none: what to do then is said, not printed. */
export function loopsText({ loops, limit, atWork }: Loops, page: Page): string {
  if (loops.length === 0) return "";
  const columns = [
    // Whole while there is room: it is there to be typed.
    { title: "LOOP", shrinkTo: 48, last: true, cut: "middle" },
    { title: "STATE" },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 1 },
    { title: "PRIORITY", optional: true, expendable: 2 },
    { title: "BEAT", optional: true },
    { title: "WORK", shrinkTo: 10, optional: true, expendable: 3 },
  ] as const;
  const rows = loops.map((one) => [
    { text: one.run.id, style: "bold" } as const,
    stateCell(one),
    { text: one.run.latest === null ? "" : stageText(one.run.latest) },
    { text: one.priority === 0 ? "" : priorityText(one.priority) },
    { text: beatText(one, page), style: "dim" } as const,
    { text: workText(one.run.work) },
  ]);
  const places = limit === null ? "" : ` of ${limit} places`;
  return `${renderTable({ columns, rows }, page)}At work: ${atWork}${places}.\n`;
}

function stateCell(one: Stood) {
  const { word, style } = standingWord(one.standing);
  return { text: one.turn === null ? word : `${word}: ${one.turn}`, style };
}

/** Of those that somebody holds. */
function beatText({ holder, standing }: Stood, page: Page): string {
  return holder === null || standing.kind === "completed" ? "" : relativeTime(holder.heartbeatAt, page.now);
}

import type { Elapsed, NodeCondition } from "../../core/graph/graph-picture.ts";
import { clockText } from "./clock-text.ts";
import type { Page, Style } from "./page.ts";

/** How a node's state looks. Each has a sign and a word of its own, so that nothing depends on colours. */
interface NodeMark {
  readonly sign: string;
  readonly ascii: string;
  readonly style: Style;
}

const MARKS: Readonly<Record<NodeCondition, NodeMark>> = {
  complete: { sign: "✓", ascii: "+", style: "green" },
  running: { sign: "▸", ascii: ">", style: "cyan" },
  interrupted: { sign: "!", ascii: "!", style: "yellow" },
  failed: { sign: "✗", ascii: "x", style: "red" },
  unknown: { sign: "?", ascii: "?", style: "yellow" },
  skipped: { sign: "–", ascii: "-", style: "dim" },
  queued: { sign: "○", ascii: "o", style: "dim" },
  pending: { sign: "·", ascii: ".", style: "dim" },
};

export function signOf(state: NodeCondition, page: Pick<Page, "ascii">): string {
  return page.ascii === true ? MARKS[state].ascii : MARKS[state].sign;
}

export function styleOf(state: NodeCondition): Style {
  return MARKS[state].style;
}

/** "3 min", "≥ 3 min" when nobody saw the end; "" when there is nothing to tell. */
export function elapsedText(elapsed: Elapsed | null, page: Pick<Page, "ascii">): string {
  if (elapsed === null) return "";
  const text = clockText(elapsed.milliseconds);
  if (elapsed.kind !== "at_least") return text;
  return `${page.ascii === true ? ">=" : "≥"} ${text}`;
}

import { NODE_CONDITIONS, countConditions } from "../../core/graph/graph-picture.ts";
import type { GraphPicture, NodeCondition, NodePicture } from "../../core/graph/graph-picture.ts";
import { displayWidth, padEnd, truncate } from "./display-width.ts";
import { escapeText } from "./escape-text.ts";
import { elapsedText, signOf, styleOf } from "./node-mark.ts";
import { paint } from "./page.ts";
import type { Page } from "./page.ts";

export type GraphPage = Pick<Page, "width" | "color" | "ascii">;

/**
 * One line a batch: a strip of its states, how many of each, and by name what runs or needs a look. Where there are more batches than lines,
 * neighbours share one; every node is counted once.
 */
export function batchLines(picture: GraphPicture, page: GraphPage, limit: number): readonly string[] {
  const nodes = new Map(picture.nodes.map((node) => [node.id, node]));
  const groups = groupBatches(
    picture.batches.map((batch, at): Group => {
      const own = batch.flatMap((id) => nodes.get(id) ?? []);
      return { first: at + 1, last: at + 1, nodes: own, only: onlyState(own) };
    }),
    limit,
  );
  const labels = groups.map(({ first, last }) => `batch ${first === last ? first : `${first}-${last}`}`);
  const widest = Math.max(0, ...labels.map((label) => label.length));
  return groups.map((group, at) => groupLine(group, padEnd(labels[at] ?? "", widest), page));
}

interface Group {
  readonly first: number;
  readonly last: number;
  readonly nodes: readonly NodePicture[];
  /** The state that all of them are in. */
  readonly only: NodeCondition | null;
}

function onlyState(nodes: readonly NodePicture[]): NodeCondition | null {
  const [first] = nodes;
  return first !== undefined && nodes.every(({ state }) => state === first.state) ? first.state : null;
}

/** Neighbours of one state go together first: what has ended and what has not begun is of less interest than what happens between. */
function groupBatches(batches: readonly Group[], limit: number): readonly Group[] {
  if (batches.length <= limit) return batches;
  const alike: Group[][] = [];
  for (const batch of batches) {
    const before = alike.at(-1);
    if (before !== undefined && batch.only !== null && before[0]?.only === batch.only) before.push(batch);
    else alike.push([batch]);
  }
  const size = Math.ceil(alike.length / Math.max(1, limit));
  return Array.from({ length: Math.ceil(alike.length / size) }, (_, at) =>
    joinGroups(alike.slice(at * size, (at + 1) * size).flat()),
  );
}

function joinGroups(groups: readonly Group[]): Group {
  const nodes = groups.flatMap((group) => group.nodes);
  return { first: groups[0]?.first ?? 0, last: groups.at(-1)?.last ?? 0, nodes, only: onlyState(nodes) };
}

function groupLine(group: Group, label: string, page: GraphPage): string {
  const counts = countsText(countConditions(group.nodes));
  const head = `${label}  ${" ".repeat(STRIP)}  `;
  const room = page.width - head.length;
  // Too narrow for the strip: the words say more.
  if (room < displayWidth(counts) && page.width < label.length + 2 + displayWidth(counts))
    return truncate(`${label}  ${counts}`, page.width, page.ascii === true ? ".." : "…");
  if (room < displayWidth(counts)) return `${paint(page, "dim", label)}  ${counts}`;
  const names = nowText(group.nodes, room - displayWidth(counts) - 2, page);
  return `${paint(page, "dim", label)}  ${strip(group.nodes, page)}  ${counts}${names === "" ? "" : `  ${names}`}`;
}

const STRIP = 10;

/** A sign for each node while they fit, else a bar of how much is complete. */
function strip(nodes: readonly NodePicture[], page: GraphPage): string {
  if (nodes.length <= STRIP) {
    const signs = nodes.map(({ state }) => paint(page, styleOf(state), signOf(state, page))).join("");
    return signs + " ".repeat(STRIP - nodes.length);
  }
  const complete = nodes.filter(({ state }) => state === "complete").length;
  const filled = Math.floor((complete / nodes.length) * STRIP);
  const [full, empty] = page.ascii === true ? ["#", "."] : ["█", "░"];
  return `${paint(page, "green", full.repeat(filled))}${paint(page, "dim", empty.repeat(STRIP - filled))}`;
}

/** "5 of 12 complete, 2 running, 1 failed". */
export function countsText(counts: Readonly<Record<NodeCondition, number>>): string {
  const total = NODE_CONDITIONS.reduce((sum, state) => sum + counts[state], 0);
  const others = NODE_CONDITIONS.filter((state) => state !== "complete" && counts[state] > 0).map(
    (state) => `${counts[state]} ${state}`,
  );
  return [`${counts.complete} of ${total} complete`, ...others].join(", ");
}

const NEEDS_A_LOOK: ReadonlySet<NodeCondition> = new Set(["running", "interrupted", "failed", "unknown"]);

/** As many names as fit whole; one alone is shortened rather than left out. */
function nowText(nodes: readonly NodePicture[], room: number, page: GraphPage): string {
  const sign = page.ascii === true ? ".." : "…";
  const shown: string[] = [];
  let used = 0;
  for (const node of nodes) {
    if (!NEEDS_A_LOOK.has(node.state)) continue;
    const left = room - used - (shown.length === 0 ? 0 : 2);
    if (left < LEAST_NAME) break;
    const time = node.state === "running" ? elapsedText(node.elapsed, page) : "";
    const tail = time === "" ? "" : ` ${time}`;
    const name = truncate(escapeText(node.id), Math.min(LONGEST_NAME, left - 2 - tail.length), sign);
    const text = `${signOf(node.state, page)} ${name}${tail}`;
    if (name === "" || displayWidth(text) > left) break;
    used += displayWidth(text) + (shown.length === 0 ? 0 : 2);
    shown.push(paint(page, styleOf(node.state), text));
  }
  return shown.join("  ");
}

const LEAST_NAME = 10;
const LONGEST_NAME = 32;

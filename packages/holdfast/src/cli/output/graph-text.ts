/** Draws a task graph as text for terminals, or as a Mermaid flowchart. */
import type { Graph, GraphEdge } from "@holdfast/core/graph";
import type { Amounts } from "@holdfast/core/position";
import {
  type Elapsed,
  type GraphPicture,
  NODE_CONDITIONS,
  type NodeCondition,
  type NodePicture,
  countConditions,
} from "../../graph-view.ts";
import { type Page, type Style, paint } from "./page.ts";
import { clockText, costText } from "./quantities.ts";
import { planWidths } from "./table.ts";
import { displayWidth, escapeText, escapeWords, padEnd, truncate, wrap } from "./text.ts";

/** A graph for a terminal: progress, batches, and the nodes that need attention. No line is wider than the page. */
export function graphLines(picture: GraphPicture, page: GraphPage, spent: Amounts | null): readonly string[] {
  // A drawing has a limited width, also in a file.
  const fitted = { ...page, width: Number.isFinite(page.width) ? page.width : 100 };
  const body = graphColumns(picture, fitted, TALLEST) ?? batchLines(picture, fitted, MOST_BATCHES);
  return [...headLines(picture, fitted, spent), "", ...body, ...tailLines(picture, fitted)];
}

/** For a view that is redrawn: progress, and one line per batch. */
export function compactGraphLines(picture: GraphPicture, page: GraphPage): readonly string[] {
  return batchLines(picture, page, COMPACT_BATCHES);
}

/** A taller drawing would not fit on a screen and is summarised. */
const TALLEST = 40;
const MOST_BATCHES = 30;
const COMPACT_BATCHES = 6;
const MOST_NAMED = 8;

function headLines(picture: GraphPicture, page: GraphPage, spent: Amounts | null): readonly string[] {
  const name = picture.id === "" ? "" : `${escapeText(picture.id)}: `;
  const facts = [wholeText(picture.elapsed), spent === null ? null : costText(spent)].filter((fact) => fact !== null);
  return [
    ...fit(`${name}${countsText(picture.counts)}`, page),
    ...(facts.length === 0 ? [] : fit(facts.join(", "), page)),
    ...pathLines(picture, page),
    ...picture.problems.slice(0, MOST_NAMED).flatMap((problem) => fit(`! ${escapeWords(problem)}`, page)),
  ];
}

function wholeText(elapsed: GraphPicture["elapsed"]): string | null {
  if (elapsed === null) return null;
  const text = clockText(elapsed.milliseconds);
  switch (elapsed.kind) {
    case "whole":
      return `took ${text}`;
    case "so_far":
      return `${text} so far`;
    case "at_least":
      return `${text} up to the last sign of life`;
  }
}

function pathLines({ criticalPath: { nodes, milliseconds }, elapsed }: GraphPicture, page: GraphPage) {
  if (nodes.length < 2) return [];
  const arrow = page.ascii === true ? " > " : " → ";
  // Before anything ran, every node has the same nominal cost, which is not a time.
  const long = elapsed === null ? "" : ` ${clockText(milliseconds)}`;
  const shown = nodes.slice(0, page.width).map(escapeText).join(arrow);
  return [cut(`* critical path${long}: ${shown}`, page)];
}

/** Failed nodes with their reasons; then, by name, other nodes that need attention, missing approvals and next nodes. */
function tailLines(picture: GraphPicture, page: GraphPage): readonly string[] {
  const having = (state: NodeCondition) => picture.nodes.filter((node) => node.state === state);
  const failed = having("failed");
  const more = failed.length - MOST_NAMED;
  const all = [
    ...failed.slice(0, MOST_NAMED).map((node) => {
      const again = node.attempts > 1 ? ` (try ${node.attempts})` : "";
      const why = node.reason === null ? "" : `: ${escapeWords(node.reason)}`;
      return marked("failed", `${escapeText(node.id)} failed${again}${why}`, page);
    }),
    ...(more > 0 ? [marked("failed", `and ${more} more`, page)] : []),
    ...namesLine("interrupted", "interrupted", having("interrupted"), page),
    ...namesLine("unknown", "not known whether they happened", having("unknown"), page),
    ...picture.approvals
      .slice(0, MOST_NAMED)
      .map(({ to, by }) => cut(`${escapeText(to)} waits for the approval of ${escapeText(by)}`, page)),
    ...nextLine(picture, page),
  ];
  return all.length === 0 ? [] : ["", ...all];
}

function namesLine(state: NodeCondition, what: string, nodes: readonly NodePicture[], page: GraphPage) {
  if (nodes.length === 0) return [];
  const names = nodes.slice(0, page.width).map((node) => {
    const time = elapsedText(node.elapsed, page);
    return `${escapeText(node.id)}${time === "" ? "" : ` (${time})`}`;
  });
  return [marked(state, `${what}: ${names.join(", ")}`, page)];
}

function marked(state: NodeCondition, text: string, page: GraphPage): string {
  const shown = truncate(text, page.width - 2, cutSign(page));
  return `${paint(page, styleOf(state), signOf(state, page))} ${shown}`;
}

function nextLine(picture: GraphPicture, page: GraphPage): readonly string[] {
  if (picture.resumePoint === null || picture.counts.running > 0) return [];
  return [cut(`continues with ${escapeText(picture.resumePoint)}`, page)];
}

function fit(text: string, page: GraphPage): readonly string[] {
  return wrap(text, page.width).map((line) => cut(line, page));
}

function cut(text: string, page: GraphPage): string {
  return truncate(text, page.width, cutSign(page));
}

function cutSign(page: GraphPage): string {
  return page.ascii === true ? ".." : "…";
}

/**
 * Draws batches side by side, each a column of its nodes: sign and name, below them state and time. Batches that do not
 * fit in a row follow below. null: the drawing would be taller than `tallest` lines.
 */
function graphColumns(picture: GraphPicture, page: GraphPage, tallest: number): readonly string[] | null {
  const narrowest = Math.min(NARROWEST, page.width);
  const nodes = new Map(picture.nodes.map((node) => [node.id, node]));
  const columns = picture.batches.map((batch, at) => columnOf(at + 1, batch, nodes, page));
  const beside = Math.max(1, Math.floor((page.width + GAP.length) / (narrowest + GAP.length)));
  const bands = Math.ceil(columns.length / beside);
  const each = Math.ceil(columns.length / Math.max(1, bands));
  const drawn: (readonly Piece[][])[] = [];
  let height = 0;
  for (let at = 0; at < columns.length; at += each) {
    const band = columns.slice(at, at + each);
    height += Math.max(...band.map(({ rows }) => rows)) + (at === 0 ? 0 : 1);
    if (height > tallest) return null;
    drawn.push(band.map(({ pieces }) => pieces));
  }
  return drawn.flatMap((band, at) => [...(at === 0 ? [] : [""]), ...bandLines(band, { page, narrowest })]);
}

const NARROWEST = 14;
const WIDEST = 32;
const GAP = "  ";

/**
 * A line of a cell: plain texts of one style each. If the cell is too narrow, parts marked `goes` are omitted, then
 * those marked `shrinks` are truncated.
 */
interface Piece {
  readonly parts: readonly {
    readonly text: string;
    readonly style?: Style;
    readonly shrinks?: true;
    readonly optional?: true;
  }[];
}

function columnOf(
  number: number,
  batch: readonly string[],
  nodes: ReadonlyMap<string, NodePicture>,
  page: GraphPage,
): { readonly pieces: Piece[]; readonly rows: number } {
  const head: Piece = { parts: [{ text: `batch ${number}`, style: "dim", shrinks: true }] };
  const pieces = batch.flatMap((id) => {
    const node = nodes.get(id);
    return node === undefined ? [] : nodePieces(node, page);
  });
  return { pieces: [head, ...pieces], rows: pieces.length + 1 };
}

function nodePieces(node: NodePicture, page: GraphPage): readonly Piece[] {
  const style = styleOf(node.state);
  const time = elapsedText(node.elapsed, page);
  const more = `${time === "" ? "" : ` ${time}`}${node.attempts > 1 ? `, try ${node.attempts}` : ""}`;
  return [
    {
      parts: [
        { text: `${signOf(node.state, page)} `, style },
        { text: escapeText(node.id), shrinks: true, ...(node.critical ? { style: "bold" as const } : {}) },
        ...(node.critical ? [{ text: " *", style: "bold" as const }] : []),
      ],
    },
    { parts: [{ text: "  " }, { text: node.state, style, shrinks: true }, { text: more, style, optional: true }] },
  ];
}

function widthOf(piece: Piece): number {
  return piece.parts.reduce((sum, { text }) => sum + displayWidth(text), 0);
}

function bandLines(
  band: readonly (readonly Piece[])[],
  params: { readonly page: GraphPage; readonly narrowest: number },
): readonly string[] {
  const { page, narrowest } = params;
  const plan = (least: (pieces: readonly Piece[]) => number): readonly number[] =>
    planWidths({
      columns: band.map((pieces) => ({ title: "", shrinkTo: least(pieces) })),
      natural: band.map((pieces) => Math.min(WIDEST, page.width, Math.max(...pieces.map(widthOf)))),
      width: page.width,
    });
  // Names are truncated before times are omitted, if that is enough.
  const gentle = plan((pieces) =>
    Math.max(narrowest, ...pieces.filter(({ parts }) => parts.some(({ optional }) => optional === true)).map(widthOf)),
  );
  const fits = gentle.reduce((sum, one) => sum + one + GAP.length, -GAP.length) <= page.width;
  const widths = fits ? gentle : plan(() => narrowest);
  const rows = Math.max(...band.map((pieces) => pieces.length));
  return Array.from({ length: rows }, (_, row) =>
    band
      .map((pieces, at) => pieceText(pieces[row], widths[at] ?? 0, page))
      .join(GAP)
      .trimEnd(),
  );
}

function pieceText(piece: Piece | undefined, width: number, page: GraphPage): string {
  if (piece === undefined) return " ".repeat(width);
  const parts = widthOf(piece) <= width ? piece.parts : piece.parts.filter(({ optional }) => optional !== true);
  const room = width - widthOf({ parts: parts.filter(({ shrinks }) => shrinks !== true) });
  let used = 0;
  const painted = parts.map(({ text, style, shrinks }) => {
    const shown = shrinks === true ? truncate(text, room, page.ascii === true ? ".." : "…") : text;
    used += displayWidth(shown);
    return style === undefined ? shown : paint(page, style, shown);
  });
  return painted.join("") + " ".repeat(Math.max(0, width - used));
}

type GraphPage = Pick<Page, "width" | "color" | "ascii">;

/**
 * One line per batch: a strip of node states, their counts, and the names of nodes that run or need attention. If there
 * are more batches than lines, neighbours share one; every node is counted once.
 */
function batchLines(picture: GraphPicture, page: GraphPage, limit: number): readonly string[] {
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
  /** The state of all nodes of the group; null: they differ. */
  readonly only: NodeCondition | null;
}

function onlyState(nodes: readonly NodePicture[]): NodeCondition | null {
  const [first] = nodes;
  return first !== undefined && nodes.every(({ state }) => state === first.state) ? first.state : null;
}

/** Joins neighbours with the same state first: finished and waiting batches matter less than active ones. */
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
  // Too narrow for the strip: the counts are more useful.
  if (room < displayWidth(counts) && page.width < label.length + 2 + displayWidth(counts))
    return truncate(`${label}  ${counts}`, page.width, page.ascii === true ? ".." : "…");
  if (room < displayWidth(counts)) return `${paint(page, "dim", label)}  ${counts}`;
  const names = nowText(group.nodes, room - displayWidth(counts) - 2, page);
  return `${paint(page, "dim", label)}  ${strip(group.nodes, page)}  ${counts}${names === "" ? "" : `  ${names}`}`;
}

const STRIP = 10;

/** One sign per node if they fit, else a progress bar. */
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

const NEEDS_ATTENTION: ReadonlySet<NodeCondition> = new Set(["running", "interrupted", "failed", "unknown"]);

/** As many whole names as fit; a single name is truncated rather than omitted. */
function nowText(nodes: readonly NodePicture[], room: number, page: GraphPage): string {
  const sign = page.ascii === true ? ".." : "…";
  const shown: string[] = [];
  let used = 0;
  for (const node of nodes) {
    if (!NEEDS_ATTENTION.has(node.state)) continue;
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

/** The display of a node's state. Each has its own sign and word, so that nothing depends on colours. */
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

function signOf(state: NodeCondition, page: Pick<Page, "ascii">): string {
  return page.ascii === true ? MARKS[state].ascii : MARKS[state].sign;
}

function styleOf(state: NodeCondition): Style {
  return MARKS[state].style;
}

/** "3 min", "≥ 3 min" if the end was not recorded; "" if there is no time. */
function elapsedText(elapsed: Elapsed | null, page: Pick<Page, "ascii">): string {
  if (elapsed === null) return "";
  const text = clockText(elapsed.milliseconds);
  if (elapsed.kind !== "at_least") return text;
  return `${page.ascii === true ? ">=" : "≥"} ${text}`;
}

/**
 * The graph as a Mermaid flowchart: one subgraph per batch, one class per state, data edges thick, approvals dotted.
 * Ids are our own numbers, and labels contain nothing that Mermaid could parse as syntax. So the name of a node can
 * neither break nor control the drawing.
 */
export function mermaidText(graph: Graph, picture: GraphPicture): string {
  const nodes = new Map(picture.nodes.map((node) => [node.id, node]));
  const names = new Map(picture.nodes.map((node, at) => [node.id, `n${at + 1}`]));
  const nameOf = (id: string): string => names.get(id) ?? "";
  const batches = picture.batches.flatMap((batch, at) => [
    `  subgraph b${at + 1}["batch ${at + 1}"]`,
    ...batch.flatMap((id) => {
      const node = nodes.get(id);
      return node === undefined ? [] : [`    ${nameOf(id)}["${nodeLabel(node)}"]:::${node.state}`];
    }),
    "  end",
  ]);
  const links = linksOf(graph, picture).map((link) => `  ${nameOf(link.from)} ${arrowOf(link)} ${nameOf(link.to)}`);
  const path = picture.criticalPath.nodes.map(nameOf);
  const used = NODE_CONDITIONS.filter((state) => picture.counts[state] > 0);
  return [
    "flowchart LR",
    ...batches,
    ...links,
    ...used.map((state) => `  classDef ${state} ${COLORS[state]}`),
    ...(path.length < 2 ? [] : ["  classDef critical stroke-width:4px", `  class ${path.join(",")} critical`]),
    "",
  ].join("\n");
}

type Link = GraphEdge | { readonly from: string; readonly to: string; readonly type: "dependency" };

/** Edges of every kind, and dependencies without an edge. Edges to unknown nodes are in `problems` and cannot be drawn. */
function linksOf(graph: Graph, picture: GraphPicture): readonly Link[] {
  const ids = new Set(picture.nodes.map(({ id }) => id));
  const drawn = new Map<string, Set<string>>();
  for (const { from, to } of graph.edges) drawn.set(to, (drawn.get(to) ?? new Set()).add(from));
  const dependencies = picture.nodes.flatMap(({ id, waitsFor }): Link[] =>
    waitsFor.filter((from) => drawn.get(id)?.has(from) !== true).map((from) => ({ from, to: id, type: "dependency" })),
  );
  return [...graph.edges, ...dependencies].filter(({ from, to }) => ids.has(from) && ids.has(to));
}

function arrowOf(link: Link): string {
  switch (link.type) {
    case "dependency":
      return "-->";
    case "sequence":
      return '-->|"sequence"|';
    case "data":
      return `==>|"data ${label(link.key)}"|`;
    case "approval":
      return `-.->|"${link.approvedAt === null ? "needs approval of" : "approved by"} ${label(link.by)}"|`;
  }
}

function nodeLabel(node: NodePicture): string {
  const times = node.attempts > 1 ? `, attempt ${node.attempts}` : "";
  const { elapsed } = node;
  const least = elapsed?.kind === "at_least" ? "at least " : "";
  const time = elapsed === null ? "" : `, ${least}${clockText(elapsed.milliseconds)}`;
  return `${label(node.id)}<br/>${label(`${node.agent}, ${node.action}`)}<br/>${node.state}${times}${time}`;
}

/**
 * An allow list. Letters and digits of all scripts and some punctuation are kept; other characters become numeric
 * entities, which Mermaid displays. A colon is not kept, because Mermaid cuts a semicolon from lines that look like a
 * style. One word is broken up: Mermaid parses "direction TB" as a statement anywhere in a line, even inside quotes.
 */
function label(text: string): string {
  return truncate(escapeWords(text), LONGEST)
    .replaceAll(/[^\p{L}\p{M}\p{N} _.,()/-]/gu, numbered)
    .replaceAll(/(?<=directio)n(?= )/gi, numbered);
}

function numbered(character: string): string {
  return `#${character.codePointAt(0) ?? 0};`;
}

const LONGEST = 80;

/** Readable on light and dark pages: each colour has its own text colour. */
const COLORS: Readonly<Record<NodeCondition, string>> = {
  complete: "fill:#d3f9d8,stroke:#2b8a3e,color:#1b1b1b",
  running: "fill:#d0ebff,stroke:#1864ab,color:#1b1b1b",
  interrupted: "fill:#fff3bf,stroke:#e67700,color:#1b1b1b,stroke-dasharray:6 3",
  failed: "fill:#ffe3e3,stroke:#c92a2a,color:#1b1b1b",
  unknown: "fill:#fff3bf,stroke:#e67700,color:#1b1b1b",
  skipped: "fill:#f1f3f5,stroke:#868e96,color:#1b1b1b,stroke-dasharray:3 3",
  queued: "fill:#ffffff,stroke:#495057,color:#1b1b1b",
  pending: "fill:#ffffff,stroke:#adb5bd,color:#1b1b1b",
};

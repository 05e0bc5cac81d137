import type { Graph, GraphEdge } from "../../core/graph/graph.ts";
import { NODE_CONDITIONS } from "../../core/graph/graph-picture.ts";
import type { GraphPicture, NodeCondition, NodePicture } from "../../core/graph/graph-picture.ts";
import { clockText } from "./clock-text.ts";
import { truncate } from "./display-width.ts";
import { escapeWords } from "./escape-text.ts";

/**
 * The graph as a Mermaid flowchart: a subgraph a batch, a class a state, data edges thick, approvals dotted. Ids in it are numbers of ours, and
 * labels hold nothing that Mermaid could take for anything but text: what a node is called can neither break nor steer the drawing.
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

/** Edges of every kind, and dependencies that no edge tells of. Ends that are no nodes are in `problems` and cannot be drawn. */
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
 * An allow list. Letters and digits of all scripts and a little punctuation stay; the rest is written as the number that Mermaid shows as the
 * character. A colon is among the rest: Mermaid cuts a semicolon from lines that look like a style. And one word is broken up: Mermaid takes
 * "direction TB" for a statement wherever in a line it stands, also inside of quotes.
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

/** Readable on light and dark pages: each brings its own text colour. */
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

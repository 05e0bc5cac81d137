import type { GraphPicture, NodePicture } from "../../core/graph/graph-picture.ts";
import type { GraphPage } from "./batch-lines.ts";
import { displayWidth, truncate } from "./display-width.ts";
import { escapeText } from "./escape-text.ts";
import { elapsedText, signOf, styleOf } from "./node-mark.ts";
import { paint } from "./page.ts";
import type { Style } from "./page.ts";
import { planWidths } from "./table.ts";

/**
 * Batches side by side, each a column of its nodes: sign and name, below them the state in a word and how long. What does not fit beside goes on
 * below. null: it would be taller than `tallest` lines.
 */
export function graphColumns(picture: GraphPicture, page: GraphPage, tallest: number): readonly string[] | null {
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

/** A line of a cell: plain texts of one style each. Where it is too narrow one goes as a whole, then another is shortened. */
interface Piece {
  readonly parts: readonly {
    readonly text: string;
    readonly style?: Style;
    readonly shrinks?: true;
    readonly goes?: true;
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
    { parts: [{ text: "  " }, { text: node.state, style, shrinks: true }, { text: more, style, goes: true }] },
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
  // Names give way before times do, where that is enough.
  const gentle = plan((pieces) =>
    Math.max(narrowest, ...pieces.filter(({ parts }) => parts.some(({ goes }) => goes === true)).map(widthOf)),
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
  const parts = widthOf(piece) <= width ? piece.parts : piece.parts.filter(({ goes }) => goes !== true);
  const room = width - widthOf({ parts: parts.filter(({ shrinks }) => shrinks !== true) });
  let used = 0;
  const painted = parts.map(({ text, style, shrinks }) => {
    const shown = shrinks === true ? truncate(text, room, page.ascii === true ? ".." : "…") : text;
    used += displayWidth(shown);
    return style === undefined ? shown : paint(page, style, shown);
  });
  return painted.join("") + " ".repeat(Math.max(0, width - used));
}

import { nextCut } from "./cut-text.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { type Encoding, type Page, Stored } from "./memo.ts";
import { TAGS, pieceBytes } from "./page-format.ts";
import { stackLevels } from "./upper-levels.ts";

/** A string too long for one chunk, as a tree of pieces. Pieces go to the sink as they are cut. */
export function encodeText(context: EncodingContext, text: string): Encoding {
  const pieces: Page[] = [];
  let logical = 2;
  for (let start = 0; start < text.length;) {
    const { end, jsonBytes } = nextCut(text, start);
    const bytes = pieceBytes(text.slice(start, end));
    const chunk = new Stored(context.hasher(bytes), bytes);
    chunk.idIn(context.sink);
    pieces.push({ chunk, count: 0, items: 0, logical: jsonBytes, texts: undefined });
    logical += jsonBytes;
    start = end;
  }
  const levels = stackLevels({ context, tag: TAGS.pieces, lowest: pieces, base: undefined });
  return { chunk: topOf(levels).chunk, logical, levels: [] };
}

export function topOf(levels: readonly (readonly Page[])[]): Page {
  const top = levels.at(-1)?.[0];
  if (top === undefined) throw new RangeError("a tree without pages");
  return top;
}

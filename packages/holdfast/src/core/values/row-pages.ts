import { encodeChild } from "./encode-child.ts";
import type { EncodingContext } from "./encoding-context.ts";
import type { Texts } from "./long-texts.ts";
import type { Level, Page } from "./memo.ts";
import { ObjectPageBuilder } from "./object-pages.ts";
import { TAGS } from "./page-format.ts";
import { repaginate } from "./repaginate.ts";
import type { Edit, RowCursor, Rows } from "./rows.ts";
import { buildUpperPage } from "./upper-levels.ts";

/** An earlier row, and what it was encoded as. */
export interface RowBase {
  readonly rows: Rows;
  readonly levels: readonly Level[];
}

/** The levels that objectPages and stackLevels make of an object with these entries, at the price of what differs from the base. */
export function rowLevels(context: EncodingContext, rows: Rows, base: RowBase | undefined): readonly Level[] {
  const tag = TAGS.objects;
  const emit = (page: Page): void => void page.chunk.idIn(context.sink);
  const cursor = rows.cursor();
  let { pages, edits } = repaginate({
    length: rows.size,
    ...knownAt(0, rows.size, base, base === undefined ? [] : rows.editsSince(base.rows)),
    build: (from, near) => buildPage(context, cursor, from, near),
    emit,
  });
  const levels: Level[] = [pages];
  while (pages.length > 1) {
    const level = levels.length;
    const row = pages;
    const known = knownAt(level, row.length, base, edits);
    const build = (from: number): Page => buildUpperPage({ context, tag, level, row, from });
    ({ pages, edits } = repaginate({ length: row.length, ...known, build, emit }));
    levels.push(pages);
  }
  return levels;
}

/** The base may be less high: then all of this level is new. */
function knownAt(level: number, length: number, base: RowBase | undefined, edits: readonly Edit[]) {
  const pages = base?.levels[level];
  if (pages !== undefined) return { base: pages, edits };
  return { base: [], edits: [{ baseFrom: 0, baseTo: 0, from: 0, to: length }] };
}

function buildPage(context: EncodingContext, cursor: RowCursor, from: number, near: Level): Page {
  const page = new ObjectPageBuilder();
  let texts: Texts | undefined;
  for (let at = from; ; at += 1) {
    const entry = cursor.at(at);
    if (entry === undefined) break;
    const [key, child] = entry;
    if (typeof child === "string") texts ??= textsIn(near);
    if (page.add(context, { key, child, encoded: encodeChild(context, child, texts) })) break;
  }
  return page.finish(context);
}

function textsIn(pages: Level): Texts {
  return pages.flatMap(({ texts }) => texts ?? []);
}

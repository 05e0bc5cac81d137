import { commonPrefix } from "./common-prefix.ts";
import { REFERENCE_WEIGHT, isCut } from "./cut.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { type Level, type Page, Stored } from "./memo.ts";
import { type UpperTag, upperBytes, upperPreimage } from "./page-format.ts";
import { type PagedBase, paginate } from "./paginate.ts";

/** Pages of pages, until one page is left. */
export function stackLevels(params: {
  readonly context: EncodingContext;
  readonly tag: UpperTag;
  readonly lowest: Level;
  readonly base: readonly Level[] | undefined;
}): readonly Level[] {
  const { context, tag, base } = params;
  const levels: Level[] = [params.lowest];
  let below = params.lowest;
  while (below.length > 1) {
    const level = levels.length;
    const row = below;
    below = paginate({
      length: row.length,
      base: pagedBase(row, base?.[level - 1], base?.[level]),
      build: (from) => buildUpperPage({ context, tag, level, row, from }),
      emit: (page) => page.chunk.idIn(context.sink),
    });
    levels.push(below);
  }
  return levels;
}

function pagedBase(row: Level, base: Level | undefined, pages: Level | undefined): PagedBase | undefined {
  if (base === undefined || pages === undefined) return undefined;
  return {
    pages,
    same: commonPrefix(row, base, 0),
    isSame: (at, baseAt) => row[at] === base[baseAt],
    locate: (at) => {
      const page = row[at];
      const found = page === undefined ? -1 : base.indexOf(page);
      return found === -1 ? undefined : found;
    },
  };
}

function buildUpperPage(params: {
  readonly context: EncodingContext;
  readonly tag: UpperTag;
  readonly level: number;
  readonly row: Level;
  readonly from: number;
}): Page {
  const { context, tag, level, row, from } = params;
  const digests: string[] = [];
  const ids: number[] = [];
  let items = 0;
  let logical = 0;
  for (let at = from; at < row.length; at += 1) {
    const page = row[at];
    if (page === undefined) break;
    digests.push(page.chunk.digest);
    ids.push(page.chunk.idIn(context.sink));
    items += page.items;
    logical += page.logical;
    const entries = ids.length;
    if (isCut({ mark: page.chunk.mark, weight: REFERENCE_WEIGHT }, { entries, weight: entries * REFERENCE_WEIGHT })) {
      break;
    }
  }
  const digest = context.hasher(upperPreimage(tag, level, digests));
  const chunk = new Stored(digest, upperBytes(tag, level, ids));
  return { chunk, count: ids.length, items, logical, texts: undefined };
}

import type { Level, Page } from "./memo.ts";

/**
 * Cuts a row of entries into pages, taking over the pages of an earlier row (the base) wherever one begins at the
 * same entry and holds just the same ones. As the cuts follow from the entries alone, the outcome is the same as
 * without a base; only the work is less.
 */
export function paginate(params: {
  readonly length: number;
  readonly base: PagedBase | undefined;
  /** Makes the page that begins at entry `from`. */
  readonly build: (from: number) => Page;
  /** For every page as soon as it is known that it will not be the only one. */
  readonly emit: (page: Page) => void;
}): Level {
  const { length, base } = params;
  const pages = base === undefined ? [] : frontPages(base);
  let at = 0;
  for (const page of pages) at += page.count;
  const reuse = base === undefined ? undefined : new PageReuse(base, length);
  while (at < length) {
    const page = reuse?.pageAt(at) ?? params.build(at);
    pages.push(page);
    at += page.count;
    if (at < length || pages.length > 1) params.emit(page);
  }
  return pages;
}

/**
 * Those of the base up to the first entry that differs. They need not be emitted: as one of several, each was when it
 * was made. The last one is left to PageReuse.
 */
function frontPages(base: PagedBase): Page[] {
  const { pages } = base;
  let count = 0;
  for (let end = 0; count < pages.length - 1; count += 1) {
    end += pages[count]?.count ?? 0;
    if (end > base.same) break;
  }
  return pages.slice(0, count);
}

export interface PagedBase {
  readonly pages: Level;
  /** So many entries at the front are the very same. */
  readonly same: number;
  /** Whether this entry is the very same as that of the base. */
  isSame(at: number, baseAt: number): boolean;
  /** Where the base has this entry. */
  locate(at: number): number | undefined;
}

class PageReuse {
  readonly #base: PagedBase;
  readonly #length: number;
  readonly #starts: readonly number[];
  #shift = 0;

  constructor(base: PagedBase, length: number) {
    this.#base = base;
    this.#length = length;
    const starts: number[] = [];
    let start = 0;
    for (const page of base.pages) {
      starts.push(start);
      start += page.count;
    }
    starts.push(start);
    this.#starts = starts;
  }

  pageAt(at: number): Page | undefined {
    const baseAt = this.#align(at);
    if (baseAt === undefined) return undefined;
    const index = lastNotAbove(this.#starts, baseAt);
    const page = this.#base.pages[index];
    if (page === undefined || this.#starts[index] !== baseAt) return undefined;
    const end = at + page.count;
    // The last page of the base was cut by the row's end, not by an entry: it fits only where ours ends too.
    if (end > this.#length || (index === this.#base.pages.length - 1 && end !== this.#length)) return undefined;
    for (let i = 1; i < page.count; i += 1) {
      if (!this.#base.isSame(at + i, baseAt + i)) return undefined;
    }
    return page;
  }

  #align(at: number): number | undefined {
    const expected = at + this.#shift;
    if (expected >= 0 && this.#base.isSame(at, expected)) return expected;
    const found = this.#base.locate(at);
    if (found !== undefined) this.#shift = found - at;
    return found;
  }
}

/** Index of the last of the ascending `row` that is not above `value`; 0 when all are. */
export function lastNotAbove<T extends string | number>(row: readonly T[], value: T): number {
  let low = 0;
  let high = row.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const found = row[middle];
    if (found !== undefined && found <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

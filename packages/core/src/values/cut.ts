/**
 * Where a row of entries is cut into pages. Whether to cut after an entry hangs on the entry itself and on the size
 * of the page so far, never on what follows or on how the row came about: after an edit, the cuts fall back into
 * step within a page or two, and the same row always gives the same pages.
 */
export function isCut(entry: { readonly mark: number; readonly weight: number }, page: PageSize): boolean {
  if (page.entries < 2 || page.weight < MIN_WEIGHT) return false;
  return page.weight >= MAX_WEIGHT || entry.mark < entry.weight * MARKS_PER_UNIT;
}

/** This entry included. */
interface PageSize {
  readonly entries: number;
  readonly weight: number;
}

/** Weights are about bytes. A page of references holds some 64 of them, one of inline values about 1 KB. */
const MIN_WEIGHT = 256;
const MEAN_WEIGHT = 768;
const MAX_WEIGHT = 4096;
const MARKS_PER_UNIT = 2 ** 32 / MEAN_WEIGHT;

export const REFERENCE_WEIGHT = 16;

export function inlineWeight(text: string): number {
  return text.length < 8 ? 8 : text.length;
}

/** 32 even bits out of a text. FNV-1a with a final mix; it need only be even, the digest is what must be safe. */
export function markOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  hash = Math.imul(hash ^ (hash >>> 15), 0x846ca68b);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * A chunk's id is its pack's number and its slot. A pack's number is the log position it was written for, and its place
 * among the packs written for that position; the last place is that of the pack inside the checkpoint's own row. So ids
 * ascend in the order of writing, and a chunk's id is above those it refers to.
 */
export const SLOTS_PER_PACK = 2 ** 12;
const PACKS_PER_POSITION = 2 ** 10;

/** Beyond this position ids would not be exact as JavaScript numbers. */
export const LAST_POSITION = 2 ** 31 - 1;

export function chunkIdOf(pack: number, slot: number): number {
  return pack * SLOTS_PER_PACK + slot;
}

export function packOf(chunk: number): number {
  return Math.floor(chunk / SLOTS_PER_PACK);
}

export function slotOf(chunk: number): number {
  return chunk % SLOTS_PER_PACK;
}

/** The pack inside the row at that position. */
export function rowPackOf(position: number): number {
  return position * PACKS_PER_POSITION + PACKS_PER_POSITION - 1;
}

export function isRowPack(pack: number): boolean {
  return pack % PACKS_PER_POSITION === PACKS_PER_POSITION - 1;
}

export function positionOf(pack: number): number {
  return Math.floor(pack / PACKS_PER_POSITION);
}

/** First and last number for packs of their own written for a position. */
export function packsFor(position: number): { readonly first: number; readonly last: number } {
  const first = position * PACKS_PER_POSITION;
  return { first, last: first + PACKS_PER_POSITION - 2 };
}

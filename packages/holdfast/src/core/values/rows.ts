import type { Json } from "../json.ts";

/** Of the keys of an object, in canonical order. Never changed once made: the same piece holds the same entries. */
interface Piece {
  readonly keys: readonly string[];
  readonly values: readonly Json[];
}

/** So many entries of a row that became so many others, as places in the two rows. Everything outside of edits is the very same. */
export interface Edit {
  readonly baseFrom: number;
  readonly baseTo: number;
  readonly from: number;
  readonly to: number;
}

/** A piece longer than this is cut in two. */
const MAX_PIECE = 128;

/**
 * The entries of an object of many keys, in canonical order and in pieces. A changed row is a new one that shares all
 * pieces in which nothing changed, so two rows tell what differs between them by looking at their pieces only.
 * Values must be captured ones: nobody may change them.
 */
export class Rows {
  static readonly EMPTY = new Rows([], 0);
  readonly size: number;
  readonly #pieces: readonly Piece[];

  private constructor(pieces: readonly Piece[], size: number) {
    this.#pieces = pieces;
    this.size = size;
  }

  /** With these set anew; undefined: removed. */
  with(changes: ReadonlyMap<string, Json | undefined>): Rows {
    const keys = [...changes.keys()].sort();
    const pieces: Piece[] = [];
    let next = 0;
    let size = this.size;
    for (let at = 0; next < keys.length;) {
      const home = Math.max(at, this.#homeOf(keys[next] ?? ""));
      for (; at < home; at += 1) pieces.push(this.#pieces[at] ?? NO_ENTRIES);
      const limit = this.#pieces[home + 1]?.keys[0];
      const first = next;
      next = limit === undefined ? keys.length : keys.findIndex((key, place) => place >= first && key >= limit);
      if (next === -1) next = keys.length;
      const before = this.#pieces[home] ?? NO_ENTRIES;
      const after = merge(before, keys.slice(first, next), changes);
      size += after.keys.length - before.keys.length;
      for (const piece of split(after)) pieces.push(piece);
      at = home + 1;
      if (next >= keys.length) for (; at < this.#pieces.length; at += 1) pieces.push(this.#pieces[at] ?? NO_ENTRIES);
    }
    return keys.length === 0 ? this : new Rows(pieces, size);
  }

  get(key: string): Json | undefined {
    const piece = this.#pieces[this.#homeOf(key)];
    const at = piece?.keys.indexOf(key) ?? -1;
    return at === -1 ? undefined : piece?.values[at];
  }

  *entries(): Generator<readonly [key: string, value: Json]> {
    for (const { keys, values } of this.#pieces) {
      for (let at = 0; at < keys.length; at += 1) yield [keys[at] ?? "", values[at] ?? null];
    }
  }

  cursor(): RowCursor {
    return new RowCursor(this.#pieces);
  }

  /** Values that the base does not have. */
  since(base: Rows | undefined): readonly Json[] {
    const values: Json[] = [];
    const cursor = this.cursor();
    for (const { from, to } of this.editsSince(base ?? Rows.EMPTY)) {
      for (let at = from; at < to; at += 1) values.push(cursor.at(at)?.[1] ?? null);
    }
    return values;
  }

  /** In order. */
  editsSince(base: Rows): readonly Edit[] {
    const known = new Set(base.#pieces);
    const edits: Edit[] = [];
    let baseAt = 0;
    let baseIndex = 0;
    let at = 0;
    let index = 0;
    while (index < this.#pieces.length || baseIndex < base.#pieces.length) {
      const shared = this.#pieces[index];
      if (shared !== undefined && shared === base.#pieces[baseIndex]) {
        at += shared.keys.length;
        baseAt += shared.keys.length;
        index += 1;
        baseIndex += 1;
        continue;
      }
      const fresh: Piece[] = [];
      for (let piece = this.#pieces[index]; piece !== undefined && !known.has(piece); piece = this.#pieces[index]) {
        fresh.push(piece);
        index += 1;
      }
      const gone: Piece[] = [];
      // Keys ascend in both, so what is shared comes in the same order in both.
      for (let piece = base.#pieces[baseIndex]; piece !== this.#pieces[index]; piece = base.#pieces[baseIndex]) {
        if (piece === undefined) throw new RangeError("a shared piece is out of order");
        gone.push(piece);
        baseIndex += 1;
      }
      compare({ gone: join(gone), fresh: join(fresh), baseAt, at, edits });
      for (const { keys } of fresh) at += keys.length;
      for (const { keys } of gone) baseAt += keys.length;
    }
    return edits;
  }

  /** Index of the piece in which the key is or would be. */
  #homeOf(key: string): number {
    let low = 0;
    let high = this.#pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pieces[middle]?.keys[0] ?? "") <= key) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Goes through a row forwards only. */
export class RowCursor {
  readonly #pieces: readonly Piece[];
  #index = 0;
  #start = 0;

  constructor(pieces: readonly Piece[]) {
    this.#pieces = pieces;
  }

  /** `place` must not be below that of the call before, save within one piece. undefined: behind the end. */
  at(place: number): readonly [key: string, value: Json] | undefined {
    for (let piece = this.#pieces[this.#index]; piece !== undefined; piece = this.#pieces[this.#index]) {
      const inside = place - this.#start;
      if (inside < piece.keys.length) return [piece.keys[inside] ?? "", piece.values[inside] ?? null];
      this.#start += piece.keys.length;
      this.#index += 1;
    }
    return undefined;
  }
}

const NO_ENTRIES: Piece = { keys: [], values: [] };

function join(pieces: readonly Piece[]): Piece {
  const keys: string[] = [];
  const values: Json[] = [];
  for (const piece of pieces) {
    for (const key of piece.keys) keys.push(key);
    for (const value of piece.values) values.push(value);
  }
  return { keys, values };
}

/** `changed` are keys in order. */
function merge(piece: Piece, changed: readonly string[], changes: ReadonlyMap<string, Json | undefined>): Piece {
  const keys: string[] = [];
  const values: Json[] = [];
  let old = 0;
  const keepTo = (end: number): void => {
    for (; old < end; old += 1) {
      keys.push(piece.keys[old] ?? "");
      values.push(piece.values[old] ?? null);
    }
  };
  for (const key of changed) {
    const place = piece.keys.findIndex((one, at) => at >= old && one >= key);
    keepTo(place === -1 ? piece.keys.length : place);
    if (piece.keys[old] === key) old += 1;
    const value = changes.get(key);
    if (value === undefined) continue;
    keys.push(key);
    values.push(value);
  }
  keepTo(piece.keys.length);
  return { keys, values };
}

function split(piece: Piece): readonly Piece[] {
  const { keys, values } = piece;
  if (keys.length === 0) return [];
  if (keys.length <= MAX_PIECE) return [piece];
  const pieces: Piece[] = [];
  for (let from = 0; from < keys.length; from += MAX_PIECE / 2) {
    const to = from + MAX_PIECE / 2;
    pieces.push({ keys: keys.slice(from, to), values: values.slice(from, to) });
  }
  return pieces;
}

/** Adds the edits between two stretches that begin at these places. */
function compare(params: {
  readonly gone: Piece;
  readonly fresh: Piece;
  readonly baseAt: number;
  readonly at: number;
  readonly edits: Edit[];
}): void {
  const { gone, fresh, baseAt, at, edits } = params;
  let i = 0;
  let j = 0;
  let baseFrom = 0;
  let from = 0;
  const close = (): void => {
    if (i > baseFrom || j > from)
      edits.push({ baseFrom: baseAt + baseFrom, baseTo: baseAt + i, from: at + from, to: at + j });
  };
  while (i < gone.keys.length || j < fresh.keys.length) {
    const was = gone.keys[i];
    const is = fresh.keys[j];
    if (was === is && gone.values[i] === fresh.values[j]) {
      close();
      i += 1;
      j += 1;
      baseFrom = i;
      from = j;
    } else if (was === is) {
      i += 1;
      j += 1;
    } else if (is === undefined || (was !== undefined && was < is)) {
      i += 1;
    } else {
      j += 1;
    }
  }
  close();
}

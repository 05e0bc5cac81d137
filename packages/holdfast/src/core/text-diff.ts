/** What people read of a changed text: removed lines with "-", added ones with "+", two unchanged lines around each. */
export function describeTextChange(params: { readonly before: string; readonly after: string }): string {
  const edits = diffLines(params);
  const near = edits.map((_, place) => edits.slice(Math.max(0, place - CONTEXT), place + CONTEXT + 1).some(isChange));
  const shown: string[] = [];
  for (const [place, edit] of edits.entries()) {
    if (near[place] === true) shown.push(`${SIGN[edit.kind]}${edit.line}`);
    else if (near[place - 1] !== false) shown.push("…");
  }
  const left = shown.length - MAX_SHOWN;
  return left > 0 ? [...shown.slice(0, MAX_SHOWN), `… and ${left} more lines`].join("\n") : shown.join("\n");
}

export interface LineEdit {
  readonly kind: "same" | "removed" | "added";
  readonly line: string;
}

/**
 * Line by line, as few edits as Myers' search finds. Its work grows with the square of the edits, so it gives up at a bound
 * and tells the differing middle as replaced whole: longer than need be, never wrong.
 */
export function diffLines(params: { readonly before: string; readonly after: string }): readonly LineEdit[] {
  const before = linesOf(params.before);
  const after = linesOf(params.after);
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end += 1;
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  return [
    ...mark("same", before.slice(0, start)),
    ...(shortestEdits(old, now) ?? [...mark("removed", old), ...mark("added", now)]),
    ...mark("same", before.slice(before.length - end)),
  ];
}

const CONTEXT = 2;
const MAX_SHOWN = 400;
const MAX_EDITS = 500;
const SIGN = { same: "  ", removed: "- ", added: "+ " } as const;

function isChange(edit: LineEdit): boolean {
  return edit.kind !== "same";
}

function linesOf(text: string): readonly string[] {
  return text.replaceAll("\r\n", "\n").split("\n");
}

function mark(kind: LineEdit["kind"], lines: readonly string[]): readonly LineEdit[] {
  return lines.map((line) => ({ kind, line }));
}

/** null: more edits than the bound. `reached[k]` is how far into `old` the diagonal k was followed. */
function shortestEdits(old: readonly string[], now: readonly string[]): readonly LineEdit[] | null {
  const trail: ReadonlyMap<number, number>[] = [];
  let reached = new Map<number, number>([[1, 0]]);
  for (let edits = 0; edits <= Math.min(MAX_EDITS, old.length + now.length); edits += 1) {
    trail.push(reached);
    const next = new Map<number, number>();
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = comesDown(reached, diagonal, edits) ? at(reached, diagonal + 1) : at(reached, diagonal - 1) + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x += 1;
      next.set(diagonal, x);
      if (x >= old.length && x - diagonal >= now.length) return walkBack(trail, old, now);
    }
    reached = next;
  }
  return null;
}

function walkBack(
  trail: readonly ReadonlyMap<number, number>[],
  old: readonly string[],
  now: readonly string[],
): readonly LineEdit[] {
  const backwards: LineEdit[] = [];
  let x = old.length;
  let y = now.length;
  for (let edits = trail.length - 1; edits >= 0; edits -= 1) {
    const reached = trail[edits] ?? new Map<number, number>();
    const diagonal = x - y;
    const down = comesDown(reached, diagonal, edits);
    const fromX = edits === 0 ? 0 : at(reached, down ? diagonal + 1 : diagonal - 1);
    const fromY = edits === 0 ? 0 : fromX - (down ? diagonal + 1 : diagonal - 1);
    const [beginX, beginY] = edits === 0 ? [0, 0] : down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    for (; x > beginX && y > beginY; x -= 1, y -= 1) backwards.push({ kind: "same", line: old[x - 1] ?? "" });
    if (edits === 0) break;
    backwards.push(down ? { kind: "added", line: now[fromY] ?? "" } : { kind: "removed", line: old[fromX] ?? "" });
    [x, y] = [fromX, fromY];
  }
  return backwards.toReversed();
}

/** Was the furthest point on this diagonal found by adding a line, rather than by removing one? */
function comesDown(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  return diagonal !== edits && at(reached, diagonal - 1) < at(reached, diagonal + 1);
}

function at(reached: ReadonlyMap<number, number>, diagonal: number): number {
  return reached.get(diagonal) ?? 0;
}

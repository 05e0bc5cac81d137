// A patch as rows of a table, with the words that changed. Pure.
import { diffWordsWithSpace, parsePatch } from "diff";

export interface DiffRow {
  readonly kind: "hunk" | "same" | "added" | "removed" | "note";
  readonly old: number | null;
  readonly new: number | null;
  readonly text: string;
  /** Ranges of characters that differ from the line's counterpart. */
  readonly words: readonly (readonly [number, number])[];
}

/** Longer lines are not compared word by word. */
const LONGEST = 500;
/** What one line may show. */
const SHOWN = 4000;

export function rowsOf(patch: string, truncated = false): readonly DiffRow[] {
  return parse(truncated ? fitLastHunk(patch) : patch).flatMap(({ hunks }) =>
    hunks.flatMap((hunk): readonly DiffRow[] => {
      let before = hunk.oldStart;
      let after = hunk.newStart;
      const rows = hunk.lines.map((line): DiffRow => {
        const text = shorten(line.slice(1));
        switch (line.charAt(0)) {
          case "+":
            return { kind: "added", old: null, new: after++, text, words: [] };
          case "-":
            return { kind: "removed", old: before++, new: null, text, words: [] };
          case "\\":
            return { kind: "note", old: null, new: null, text: text.trim(), words: [] };
          default:
            return { kind: "same", old: before++, new: after++, text, words: [] };
        }
      });
      const head = `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`;
      return [{ kind: "hunk", old: null, new: null, text: head, words: [] }, ...markWords(rows)];
    }),
  );
}

/** A patch that was cut has fewer lines than the head of its last hunk says, which the parser refuses. */
function fitLastHunk(patch: string): string {
  const at = patch.lastIndexOf("\n@@ -") + 1;
  const [head = "", ...lines] = patch.slice(at).trimEnd().split("\n");
  const [, old, now] = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(head) ?? [];
  if (old === undefined || now === undefined) return patch;
  const count = (sign: string): number => lines.filter((line) => line.startsWith(" ") || line.startsWith(sign)).length;
  return `${patch.slice(0, at)}@@ -${old},${count("-")} +${now},${count("+")} @@\n${lines.join("\n")}\n`;
}

function parse(patch: string): ReturnType<typeof parsePatch> {
  try {
    const files = parsePatch(patch);
    const broken = files.some(({ hunks }) => hunks.some(({ oldStart, newStart }) => Number.isNaN(oldStart + newStart)));
    return broken ? [] : files;
  } catch {
    return [];
  }
}

function shorten(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)} … ${text.length - SHOWN} more characters`;
}

/** Removed lines that are followed by as many added lines are pairs. */
function markWords(rows: readonly DiffRow[]): readonly DiffRow[] {
  const marked = [...rows];
  for (let start = 0; start < marked.length; start += 1) {
    if (marked[start]?.kind !== "removed") continue;
    let middle = start;
    while (marked[middle]?.kind === "removed") middle += 1;
    let end = middle;
    while (marked[end]?.kind === "added") end += 1;
    const pairs = Math.min(middle - start, end - middle);
    for (let pair = 0; pair < pairs; pair += 1) {
      const before = marked[start + pair];
      const after = marked[middle + pair];
      if (before === undefined || after === undefined) continue;
      const words = changedWords(before.text, after.text);
      marked[start + pair] = { ...before, words: words.before };
      marked[middle + pair] = { ...after, words: words.after };
    }
    start = end - 1;
  }
  return marked;
}

/** Rows for two columns: the old and the new line side by side. A hunk, and a line that is the same, is on both sides. */
export function pairsOf(rows: readonly DiffRow[]): readonly (readonly [DiffRow | null, DiffRow | null])[] {
  const pairs: [DiffRow | null, DiffRow | null][] = [];
  // Added lines fill the right side of the removed lines before them.
  let free = 0;
  for (const row of rows) {
    if (row.kind === "removed") pairs.push([row, null]);
    else if (row.kind === "added") {
      while (free < pairs.length && pairs[free]?.[1] !== null) free += 1;
      const pair = pairs[free];
      if (pair === undefined) pairs.push([null, row]);
      else pair[1] = row;
    } else {
      pairs.push([row, row]);
      free = pairs.length;
    }
  }
  return pairs;
}

type Ranges = readonly (readonly [number, number])[];

function changedWords(before: string, after: string): { readonly before: Ranges; readonly after: Ranges } {
  if (before.length > LONGEST || after.length > LONGEST) return { before: [], after: [] };
  const ranges = { before: [] as [number, number][], after: [] as [number, number][] };
  let [i, j, same] = [0, 0, 0];
  for (const { value, added, removed } of diffWordsWithSpace(before, after)) {
    if (removed) ranges.before.push([i, i + value.length]);
    if (added) ranges.after.push([j, j + value.length]);
    if (!added && !removed) same += value.trim().length;
    if (!added) i += value.length;
    if (!removed) j += value.length;
  }
  // Lines with little in common are different lines, not a changed one.
  const alike = same * 3 > Math.min(before.trim().length, after.trim().length);
  return alike ? ranges : { before: [], after: [] };
}

export interface Token {
  readonly text: string;
  /** The kind of token, for its colour; empty: none. */
  readonly kind: string;
  readonly changed: boolean;
}

/** Joins the tokens of a line with its changed words. Both cover the same text. */
export function cutTokens(
  tokens: readonly { readonly text: string; readonly kind: string }[],
  words: Ranges,
): readonly Token[] {
  const cuts: Token[] = [];
  let at = 0;
  for (const { text, kind } of tokens) {
    const end = at + text.length;
    const edges = [...new Set([at, end, ...words.flat().filter((edge) => edge > at && edge < end)])].sort(
      (a, b) => a - b,
    );
    for (let i = 1; i < edges.length; i += 1) {
      const [from = at, to = end] = [edges[i - 1], edges[i]];
      const changed = words.some(([start, stop]) => from >= start && to <= stop);
      cuts.push({ text: text.slice(from - at, to - at), kind, changed });
    }
    at = end;
  }
  return cuts;
}

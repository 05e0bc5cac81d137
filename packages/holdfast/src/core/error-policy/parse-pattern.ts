export type CharacterSet = (character: string) => boolean;

export type PatternTree =
  | { readonly kind: "take"; readonly set: CharacterSet }
  | { readonly kind: "assert"; readonly what: "begin" | "end" | "border" | "inside" }
  | { readonly kind: "sequence"; readonly parts: readonly PatternTree[] }
  | { readonly kind: "choice"; readonly ways: readonly PatternTree[] }
  | { readonly kind: "repeat"; readonly what: PatternTree; readonly least: number; readonly most: number | null };

export interface PatternFault {
  /** Where in the text of the pattern, from 0. */
  readonly at: number;
  readonly message: string;
}

export type ParsedPattern = { readonly ok: true; readonly tree: PatternTree } | ({ readonly ok: false } & PatternFault);

/** Texts, `.`, `[a-z]`, `\d \w \s \b`, `^ $`, `( )`, `|`, `* + ? {2,5}`: nothing that would have to be tried again and again. */
export function parsePattern(source: string): ParsedPattern {
  const reader: Reader = { source, at: 0, depth: 0 };
  try {
    const tree = readChoice(reader);
    if (reader.at < source.length) throw new Fault(reader.at, "a ) that no ( opens");
    return { ok: true, tree };
  } catch (error) {
    if (error instanceof Fault) return { ok: false, at: error.at, message: error.message };
    throw error;
  }
}

interface Reader {
  readonly source: string;
  at: number;
  depth: number;
}

class Fault extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

const MAX_DEPTH = 40;
const MAX_REPEATS = 100;

function readChoice(reader: Reader): PatternTree {
  const ways = [readSequence(reader)];
  while (reader.source[reader.at] === "|") {
    reader.at += 1;
    ways.push(readSequence(reader));
  }
  return ways.length === 1 && ways[0] !== undefined ? ways[0] : { kind: "choice", ways };
}

function readSequence(reader: Reader): PatternTree {
  const parts: PatternTree[] = [];
  for (let next = reader.source[reader.at]; next !== undefined; next = reader.source[reader.at]) {
    if (next === "|" || next === ")") break;
    parts.push(readRepeat(reader));
  }
  return { kind: "sequence", parts };
}

function readRepeat(reader: Reader): PatternTree {
  const start = reader.at;
  const what = readAtom(reader);
  const range = readRange(reader);
  if (range === null) return what;
  if (what.kind === "assert") throw new Fault(start, "a place cannot be repeated");
  // Whether it takes much or little first is of no account for whether it matches at all.
  if (reader.source[reader.at] === "?") reader.at += 1;
  if (/[*+{]/.test(reader.source[reader.at] ?? "")) throw new Fault(reader.at, "a repetition cannot be repeated");
  return { kind: "repeat", what, ...range };
}

function readRange(reader: Reader): { readonly least: number; readonly most: number | null } | null {
  const { source, at } = reader;
  const sign = source[at];
  if (sign === "*" || sign === "+" || sign === "?") {
    reader.at += 1;
    return { least: sign === "+" ? 1 : 0, most: sign === "?" ? 1 : null };
  }
  if (sign !== "{") return null;
  const [all, low, comma, high] = /^\{(\d{1,4})(,?)(\d{0,4})\}/.exec(source.slice(at, at + 12)) ?? [];
  if (all === undefined) throw new Fault(at, "expected {2}, {2,} or {2,5}; write \\{ for the sign itself");
  const least = Number(low);
  const most = comma === "" ? least : high === "" ? null : Number(high);
  if (least > MAX_REPEATS || (most ?? 0) > MAX_REPEATS)
    throw new Fault(at, `nothing is repeated more than ${MAX_REPEATS} times`);
  if (most !== null && most < least) throw new Fault(at, "the smaller number comes first");
  reader.at += all.length;
  return { least, most };
}

function readAtom(reader: Reader): PatternTree {
  const { source, at } = reader;
  const next = source[at] ?? "";
  reader.at += 1;
  switch (next) {
    case "(":
      return readGroup(reader);
    case "[":
      return { kind: "take", set: readClass(reader) };
    case ".":
      return { kind: "take", set: (character) => !/[\n\r\u2028\u2029]/.test(character) };
    case "^":
      return { kind: "assert", what: "begin" };
    case "$":
      return { kind: "assert", what: "end" };
    case "\\":
      return readEscape(reader);
    case "*":
    case "+":
    case "?":
    case "{":
      throw new Fault(at, `nothing to repeat before ${next}; write \\${next} for the sign itself`);
    default:
      return { kind: "take", set: same(next) };
  }
}

function readGroup(reader: Reader): PatternTree {
  const start = reader.at - 1;
  if (reader.source.startsWith("?:", reader.at)) reader.at += 2;
  else if (reader.source[reader.at] === "?")
    throw new Fault(start, "groups that look around or have names are not for patterns");
  reader.depth += 1;
  if (reader.depth > MAX_DEPTH) throw new Fault(start, `groups stand in each other at most ${MAX_DEPTH} deep`);
  const tree = readChoice(reader);
  if (reader.source[reader.at] !== ")") throw new Fault(start, "a ( that no ) closes");
  reader.at += 1;
  reader.depth -= 1;
  return tree;
}

function readEscape(reader: Reader): PatternTree {
  const next = reader.source[reader.at];
  if (next === "b" || next === "B") {
    reader.at += 1;
    return { kind: "assert", what: next === "b" ? "border" : "inside" };
  }
  return { kind: "take", set: readEscaped(reader) };
}

/** Also inside [ ]. */
function readEscaped(reader: Reader): CharacterSet {
  const start = reader.at - 1;
  const next = reader.source[reader.at];
  reader.at += 1;
  if (next === undefined) throw new Fault(start, "a \\ with nothing behind it");
  const kind = KINDS.get(next);
  if (kind !== undefined) return kind;
  const control = CONTROLS.get(next);
  if (control !== undefined) return same(control);
  if (/[A-Za-z0-9]/.test(next)) throw new Fault(start, `\\${next} means nothing in a pattern`);
  return same(next);
}

const KINDS: ReadonlyMap<string, CharacterSet> = new Map([
  ["d", (character) => /\d/.test(character)],
  ["D", (character) => /\D/.test(character)],
  ["w", (character) => /\w/.test(character)],
  ["W", (character) => /\W/.test(character)],
  ["s", (character) => /\s/.test(character)],
  ["S", (character) => /\S/.test(character)],
]);

const CONTROLS: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

function readClass(reader: Reader): CharacterSet {
  const start = reader.at - 1;
  const { source } = reader;
  const negated = source[reader.at] === "^";
  if (negated) reader.at += 1;
  const sets: CharacterSet[] = [];
  for (let next = source[reader.at]; next !== "]"; next = source[reader.at]) {
    if (next === undefined) throw new Fault(start, "a [ that no ] closes");
    reader.at += 1;
    if (next === "\\") {
      sets.push(readEscaped(reader));
      continue;
    }
    const last = source[reader.at] === "-" ? source[reader.at + 1] : undefined;
    if (last === undefined || last === "]" || last === "\\") {
      sets.push(same(next));
      continue;
    }
    if (last < next) throw new Fault(reader.at - 1, `${next}-${last} runs backwards`);
    reader.at += 2;
    sets.push(between(next, last));
  }
  reader.at += 1;
  return (character) => sets.some((set) => set(character)) !== negated;
}

function same(wanted: string): CharacterSet {
  const folded = wanted.toLowerCase();
  return (character) => character === wanted || character.toLowerCase() === folded;
}

function between(first: string, last: string): CharacterSet {
  const isIn = (character: string): boolean => character >= first && character <= last;
  return (character) => isIn(character) || isIn(character.toLowerCase()) || isIn(character.toUpperCase());
}

export interface Pattern {
  /** As it was written. */
  readonly source: string;
  readonly program: Program;
}

type ReadPattern = ({ readonly ok: true } & Pattern) | ({ readonly ok: false } & PatternFault);

/** What is longer is no pattern that a person wrote. */
export const MAX_PATTERN = 500;
/** Errors may carry a whole log; what they are about stands at its beginning or its end. */
const MAX_TEXT = 8_192;

/**
 * Patterns come from files that anybody may have written and meet texts that anybody may have caused. So they are a part of regular expressions that can be
 * matched in time that grows with the text alone: no look-around, no back-references.
 */
export function readPattern(source: string): ReadPattern {
  if (source === "") return { ok: false, at: 0, message: "a pattern cannot be empty" };
  if (source.length > MAX_PATTERN)
    return { ok: false, at: MAX_PATTERN, message: `a pattern has at most ${MAX_PATTERN} characters` };
  const parsed = parsePattern(source);
  if (!parsed.ok) return parsed;
  const program = compilePattern(parsed.tree);
  if (program === null)
    return { ok: false, at: 0, message: "the repetitions of this pattern add up to more than it may have" };
  return { ok: true, source, program };
}

/** Anywhere in the text, in capitals or not. All ways through the pattern are followed at once: none is ever gone back to. */
export function matchesPattern({ program }: Pick<Pattern, "program">, whole: string): boolean {
  const text = whole.length <= MAX_TEXT ? whole : `${whole.slice(0, MAX_TEXT / 2)}\n${whole.slice(-MAX_TEXT / 2)}`;
  let now: number[] = [];
  for (let at = 0; at <= text.length; at += 1) {
    const seen = new Uint8Array(program.length);
    const alive: number[] = [];
    for (const state of [...now, 0]) if (follow({ program, text, at, seen, alive }, state)) return true;
    const character = text[at];
    if (character === undefined) return false;
    now = alive.filter((state) => takes(program[state], character)).map((state) => state + 1);
  }
  return false;
}

interface Following {
  readonly program: Program;
  readonly text: string;
  readonly at: number;
  readonly seen: Uint8Array;
  /** States that wait for a character. */
  readonly alive: number[];
}

/** True when the end can be reached from here without a further character. */
function follow(following: Following, from: number): boolean {
  const { program, seen, alive } = following;
  const open = [from];
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const instruction = program[state];
    if (instruction === undefined || seen[state] === 1) continue;
    seen[state] = 1;
    switch (instruction.do) {
      case "end":
        return true;
      case "take":
        alive.push(state);
        break;
      case "branch":
        open.push(...instruction.to);
        break;
      case "assert":
        if (holds(instruction.what, following)) open.push(state + 1);
        break;
    }
  }
  return false;
}

function takes(instruction: Instruction | undefined, character: string): boolean {
  return instruction?.do === "take" && instruction.set(character);
}

function holds(what: "begin" | "end" | "border" | "inside", { text, at }: Following): boolean {
  switch (what) {
    case "begin":
      return at === 0;
    case "end":
      return at === text.length;
    case "border":
    case "inside":
      return (isWord(text[at - 1]) !== isWord(text[at])) === (what === "border");
  }
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /\w/.test(character);
}

/** What a pattern does, as a list that is walked from its beginning. */
type Instruction =
  | { readonly do: "take"; readonly set: CharacterSet }
  | { readonly do: "branch"; readonly to: readonly number[] }
  | { readonly do: "assert"; readonly what: "begin" | "end" | "border" | "inside" }
  | { readonly do: "end" };

type Program = readonly Instruction[];

/** Matching costs at most this much for each character of a text. */
const MAX_INSTRUCTIONS = 1_000;

/** null: it is too large. */
function compilePattern(tree: PatternTree): Program | null {
  const program: Instruction[] = [];
  if (!emit(program, tree)) return null;
  program.push({ do: "end" });
  return program;
}

/** False when there is no room left. */
function emit(program: Instruction[], tree: PatternTree): boolean {
  if (program.length > MAX_INSTRUCTIONS) return false;
  switch (tree.kind) {
    case "take":
      program.push({ do: "take", set: tree.set });
      return true;
    case "assert":
      program.push({ do: "assert", what: tree.what });
      return true;
    case "sequence":
      return tree.parts.every((part) => emit(program, part));
    case "choice":
      return emitChoice(program, tree.ways);
    case "repeat":
      return emitRepeat(program, tree);
  }
}

function emitChoice(program: Instruction[], ways: readonly PatternTree[]): boolean {
  const fork = reserve(program);
  const starts: number[] = [];
  const ends: number[] = [];
  for (const way of ways) {
    starts.push(program.length);
    if (!emit(program, way)) return false;
    ends.push(reserve(program));
  }
  program[fork] = { do: "branch", to: starts };
  for (const end of ends) program[end] = { do: "branch", to: [program.length] };
  return true;
}

function emitRepeat(program: Instruction[], tree: Extract<PatternTree, { readonly kind: "repeat" }>): boolean {
  const { least, most, what } = tree;
  for (let count = 0; count < least; count += 1) if (!emit(program, what)) return false;
  if (most === null) {
    const fork = reserve(program);
    if (!emit(program, what)) return false;
    program.push({ do: "branch", to: [fork] });
    program[fork] = { do: "branch", to: [fork + 1, program.length] };
    return true;
  }
  const forks: number[] = [];
  for (let count = least; count < most; count += 1) {
    forks.push(reserve(program));
    if (!emit(program, what)) return false;
  }
  for (const fork of forks) program[fork] = { do: "branch", to: [fork + 1, program.length] };
  return true;
}

function reserve(program: Instruction[]): number {
  return program.push({ do: "branch", to: [] }) - 1;
}

type CharacterSet = (character: string) => boolean;

type PatternTree =
  | { readonly kind: "take"; readonly set: CharacterSet }
  | { readonly kind: "assert"; readonly what: "begin" | "end" | "border" | "inside" }
  | { readonly kind: "sequence"; readonly parts: readonly PatternTree[] }
  | { readonly kind: "choice"; readonly ways: readonly PatternTree[] }
  | { readonly kind: "repeat"; readonly what: PatternTree; readonly least: number; readonly most: number | null };

interface PatternFault {
  /** Where in the text of the pattern, from 0. */
  readonly at: number;
  readonly message: string;
}

type ParsedPattern = { readonly ok: true; readonly tree: PatternTree } | ({ readonly ok: false } & PatternFault);

/** Texts, `.`, `[a-z]`, `\d \w \s \b`, `^ $`, `( )`, `|`, `* + ? {2,5}`: nothing that would have to be tried again and again. */
function parsePattern(source: string): ParsedPattern {
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

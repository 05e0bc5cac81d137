import { compilePattern } from "./compile-pattern.ts";
import type { Instruction, Program } from "./compile-pattern.ts";
import { parsePattern } from "./parse-pattern.ts";
import type { PatternFault } from "./parse-pattern.ts";

export interface Pattern {
  /** As it was written. */
  readonly source: string;
  readonly program: Program;
}

export type ReadPattern = ({ readonly ok: true } & Pattern) | ({ readonly ok: false } & PatternFault);

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

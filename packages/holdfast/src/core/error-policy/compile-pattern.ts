import type { CharacterSet, PatternTree } from "./parse-pattern.ts";

/** What a pattern does, as a list that is walked from its beginning. */
export type Instruction =
  | { readonly do: "take"; readonly set: CharacterSet }
  | { readonly do: "branch"; readonly to: readonly number[] }
  | { readonly do: "assert"; readonly what: "begin" | "end" | "border" | "inside" }
  | { readonly do: "end" };

export type Program = readonly Instruction[];

/** Matching costs at most this much for each character of a text. */
const MAX_INSTRUCTIONS = 1_000;

/** null: it is too large. */
export function compilePattern(tree: PatternTree): Program | null {
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

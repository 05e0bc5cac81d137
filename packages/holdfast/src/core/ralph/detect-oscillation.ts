import type { LoopFinding } from "./finding.ts";
import type { Iteration } from "./iteration.ts";

/**
 * The newest iteration is the last of `turns` turns between the same two states: of the files, or of the set of failing tests. Iterations
 * that stay in a state are one turn; one whose state is not known breaks the row.
 */
export function detectOscillation(iterations: readonly Iteration[], turns: number): LoopFinding | null {
  return (
    between("files", turnsOf(iterations, (one) => one.tree).slice(-turns), { iterations, turns }) ??
    between("failing_tests", turnsOf(iterations, (one) => one.failingDigest).slice(-turns), { iterations, turns })
  );
}

interface Turn {
  readonly state: string;
  /** The first iteration in it. */
  readonly number: number;
}

function turnsOf(iterations: readonly Iteration[], stateOf: (one: Iteration) => string | null): readonly Turn[] {
  let turns: Turn[] = [];
  for (const one of iterations) {
    const state = stateOf(one);
    if (state === null) turns = [];
    else if (turns.at(-1)?.state !== state) turns.push({ state, number: one.number });
  }
  return turns;
}

function between(
  what: "files" | "failing_tests",
  row: readonly Turn[],
  params: { readonly iterations: readonly Iteration[]; readonly turns: number },
): LoopFinding | null {
  const newest = params.iterations.at(-1);
  const [a, b] = row;
  if (newest === undefined || a === undefined || b === undefined || row.length < params.turns) return null;
  if (row.at(-1)?.number !== newest.number) return null;
  if (!row.every((turn, place) => turn.state === (place % 2 === 0 ? a.state : b.state))) return null;
  const numbers = row.map((turn) => turn.number);
  const noun = what === "files" ? "two states of the files" : "two sets of failing tests";
  return {
    kind: "oscillation",
    iteration: newest.number,
    sentence: `Back and forth between ${noun}: iterations ${numbers.join(", ")}`,
    evidence: { between: what, iterations: numbers, states: [a.state, b.state] },
  };
}

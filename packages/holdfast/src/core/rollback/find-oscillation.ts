import type { Cause } from "./cause.ts";
import { filesKey } from "./facts.ts";
import type { RollbackCandidate, RollbackFacts } from "./facts.ts";

interface State {
  readonly files: string;
  /** Of the first checkpoint that holds it, in this turn. */
  readonly first: number;
}

const TURNS = 4;

/**
 * Two states in turn, twice at least, at the end of the line. When one of them is better than the other it is a regression and the better one
 * is where to go; when none is, either of them only begins the loop again.
 */
export function findOscillation(facts: RollbackFacts, line: readonly RollbackCandidate[]): Cause | null {
  const states: State[] = [];
  for (const one of line.filter(({ half }) => half.length === 0)) {
    const files = filesKey(one);
    if (states.at(-1)?.files !== files) states.push({ files, first: one.sequence });
  }
  const [a, b] = [states.at(-2), states.at(-1)];
  if (a === undefined || b === undefined) return null;
  const pair = new Set([a.files, b.files]);
  const before = states.findLastIndex((state) => !pair.has(state.files));
  const turns = states.length - before - 1;
  const start = states[before + 1];
  const second = states[before + 2];
  if (turns < TURNS || start === undefined || second === undefined) return null;
  if (isBetter(facts, [...pair])) return null;
  // Nothing was there before: the first state is at least not yet the loop.
  const after = (before < 0 ? second.first : start.first) - 1;
  const why = `The files went back and forth between two states ${Math.floor(turns / 2)} times since checkpoint ${start.first}, and neither is better`;
  const files = before < 0 ? [second.files] : [...pair];
  const bad = new Map(
    files.map((key) => [key, "its files are one of the two states that the run went back and forth between"]),
  );
  return { kind: "oscillation", why, after, bad };
}

/** One that passed all that it was put to, or scored higher than the other. */
function isBetter(facts: RollbackFacts, pair: readonly string[]): boolean {
  const clean = pair.some((files) => {
    const checks = facts.checks.filter((one) => one.files === files);
    return checks.length > 0 && checks.every((one) => one.pass);
  });
  const [first, second] = pair.map((files) => facts.scores.findLast((one) => one.files === files)?.score);
  return clean || (first !== undefined && second !== undefined && first !== second);
}

import type { LoopFinding } from "./finding.ts";
import type { Iteration } from "./iteration.ts";

/** The newest `times` iterations failed in the same way, or none of them changed a file. The same failure is told first: it says more. */
export function detectStuck(iterations: readonly Iteration[], times: number): LoopFinding | null {
  const run = iterations.slice(-times);
  const newest = run.at(-1);
  if (newest === undefined || run.length < times) return null;
  const numbers = run.map((one) => one.number);
  const span = `iterations ${numbers[0]} to ${newest.number}`;
  const found = { kind: "stuck", iteration: newest.number } as const;
  const { signature, tree } = newest;
  if (signature !== null && run.every((one) => one.signature === signature)) {
    const sentence = `Stuck: ${span} failed in the same way`;
    return { ...found, sentence, evidence: { because: "same_failure", iterations: numbers, common: signature } };
  }
  const before = iterations.at(-times - 1) ?? null;
  if (!run.every((one, place) => unchanged(one, run[place - 1] ?? before))) return null;
  const sentence = `Stuck: ${span} changed no file`;
  return { ...found, sentence, evidence: { because: "no_change", iterations: numbers, common: tree } };
}

function unchanged(one: Iteration, before: Iteration | null): boolean {
  if (one.filesChanged !== null) return one.filesChanged === 0;
  return one.tree !== null && one.tree === before?.tree;
}

/** Where an issue stands, in crunch's own words. "input" is an issue that carries no state label yet. */
export const PHASES = [
  "input",
  "backlog",
  "enrich",
  "ready",
  "implementing",
  "e2e",
  "docs",
  "ready-to-merge",
  "done",
] as const;

export type Phase = (typeof PHASES)[number];

/** What may follow what. Absent pairs are refused; `e2e → implementing` is the way back after a failure. */
export const PHASE_MOVES: Readonly<Record<Phase, readonly Phase[]>> = {
  input: ["backlog"],
  backlog: ["enrich", "ready", "done"],
  enrich: ["ready", "done"],
  ready: ["implementing"],
  implementing: ["e2e"],
  e2e: ["docs", "implementing"],
  docs: ["ready-to-merge"],
  "ready-to-merge": ["done"],
  done: [],
};

/** "validation" is what e2e was called before; every reader takes both, every writer says e2e. */
export function parsePhase(word: string): Phase | null {
  const plain = word.trim().toLowerCase();
  if (plain === "validation") return "e2e";
  return PHASES.find((phase) => phase === plain) ?? null;
}

export function mayMove(from: Phase, to: Phase): boolean {
  return PHASE_MOVES[from].includes(to);
}

/** Has a run in `phase` come as far as `target`, so that it stops there? */
export function isAtOrPast(phase: Phase, target: Phase): boolean {
  return PHASES.indexOf(phase) >= PHASES.indexOf(target);
}

import type { Json } from "../json.ts";

/** The first place at which what is done now is not what was recorded. */
export interface Divergence {
  readonly where: {
    readonly stage: string;
    readonly iteration: number;
    readonly visit: number;
    /** null: not of one step. */
    readonly step: string | null;
    /** Sequence of the checkpoint that was compared; null: there is none at that place. */
    readonly checkpoint: number | null;
    /** Journal entry of the record; null: there is none. */
    readonly entry: number | null;
  };
  readonly what:
    | "call" // an agent is asked for something else
    | "checkpoint" // a checkpoint comes out otherwise
    | "event" // the workflow records another event
    | "step" // a step is asked for that was not done then
    | "missing" // a step that was done then is not asked for
    | "lookup" // the forge is asked what it was not asked then
    | "end" // the run ends otherwise
    | "environment" // what agents are started with
    | "files"; // the worktree is not what the newest checkpoint says
  /** A path into what was compared: `/position/feedback`, `prompt`, `$PATH`. */
  readonly field: string;
  readonly expected: Json;
  readonly actual: Json;
}

/** One line for people. Long values are cut around the place at which they part. */
export function divergenceText({ where, what, field, expected, actual }: Divergence, width = 200): string {
  const [was, is] = cutValues(expected, actual, width);
  return `${placeText(where)}: ${WORDS[what]} ${field}: recorded ${was}, now ${is}`;
}

/** "iteration 2, stage verify, step check, entry 41". */
export function placeText({ iteration, stage, step, checkpoint, entry }: Divergence["where"]): string {
  return [
    iteration === 0 ? null : `iteration ${iteration}`,
    `stage ${stage}`,
    step === null ? null : `step ${step}`,
    checkpoint === null ? null : `checkpoint ${checkpoint}`,
    entry === null ? null : `entry ${entry}`,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

const WORDS: Readonly<Record<Divergence["what"], string>> = {
  call: "the agent's",
  checkpoint: "the checkpoint's",
  event: "the event's",
  step: "the step",
  missing: "the step",
  lookup: "the question to the forge",
  end: "the run's",
  environment: "the environment's",
  files: "the worktree's",
};

/** Both from a little before the first character that differs, so that the reader sees what parts them. */
export function cutValues(expected: Json, actual: Json, width: number): readonly [string, string] {
  const [a, b] = [jsonText(expected), jsonText(actual)];
  if (a.length <= width && b.length <= width) return [a, b];
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same += 1;
  const from = Math.max(0, same - Math.floor(width / 4));
  const cut = (text: string): string => {
    const part = text.slice(from, from + width);
    return `${from > 0 ? "…" : ""}${part}${from + width < text.length ? "…" : ""}`.toWellFormed();
  };
  return [cut(a), cut(b)];
}

function jsonText(value: Json): string {
  return value === null ? "nothing" : JSON.stringify(value);
}

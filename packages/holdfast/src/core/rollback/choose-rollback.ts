import { isInFiles } from "./cause.ts";
import type { Cause, CauseKind } from "./cause.ts";
import { filesKey } from "./facts.ts";
import type { EffectFact, RollbackCandidate, RollbackFacts } from "./facts.ts";
import { findCause } from "./find-cause.ts";

/** Why a checkpoint is not the one, from the plainest reason on: the first that holds is told. */
export const REJECTIONS = [
  "quarantined",
  "damaged",
  "half_step",
  "left_behind",
  "ended",
  "no_files",
  "known_bad",
  "after_cause",
  "effect",
  "older",
] as const;
export type Rejection = (typeof REJECTIONS)[number];

// Types, not interfaces: they are printed as JSON as they are.
export type Rejected = { readonly sequence: number; readonly kind: Rejection; readonly why: string };
export type ToldCause = { readonly kind: CauseKind; readonly why: string };

export type RollbackChoice =
  /** Go back to `chosen`. */
  | {
      readonly kind: "back";
      readonly chosen: number;
      readonly why: string;
      readonly cause: ToldCause;
      readonly rejected: readonly Rejected[];
      /** Done after it, and found again on the way forward. */
      readonly adopted: readonly EffectFact[];
      /** Done after it, and gone back behind all the same, because that was asked for. */
      readonly accepted: readonly EffectFact[];
    }
  /** Going back would mend nothing: `chosen` is where the run stands. */
  | {
      readonly kind: "stay";
      readonly chosen: number;
      readonly why: string;
      readonly cause: ToldCause;
      readonly rejected: readonly Rejected[];
    }
  | {
      readonly kind: "none";
      readonly chosen: null;
      readonly why: string;
      readonly cause: ToldCause;
      readonly rejected: readonly Rejected[];
      /** In the way of those that are before the cause; empty: something else is. */
      readonly effects: readonly EffectFact[];
    };

/**
 * The newest checkpoint that is intact, surely before the cause, and after every effect that a run could not find again. Nothing is weighed
 * against anything: a checkpoint that one of these speaks against is never chosen.
 */
export function chooseRollback(facts: RollbackFacts, options: { readonly pastEffects: boolean }): RollbackChoice {
  const found = findCause(facts);
  const cause: ToldCause = { kind: found.kind, why: found.why };
  const newestFirst = facts.candidates.toSorted((a, b) => b.sequence - a.sequence);
  const hasFiles = newestFirst.some(({ tree, damage }) => tree !== null && damage === null);
  const judged = newestFirst.map((candidate) => ({
    candidate,
    against: against({ candidate, facts, cause: found, hasFiles, pastEffects: options.pastEffects }),
  }));
  const chosen = judged.find((one) => one.against === null)?.candidate;
  const rejected = judged.flatMap(({ candidate, against: no }): readonly Rejected[] => {
    const { sequence } = candidate;
    if (chosen === undefined || sequence > chosen.sequence) return no === null ? [] : [{ sequence, ...no }];
    if (sequence === chosen.sequence) return [];
    return [{ sequence, ...(no ?? olderThan(candidate, chosen)) }];
  });
  if (chosen === undefined) return { kind: "none", chosen: null, cause, rejected, ...nothingLeft(facts, rejected) };
  const { sequence } = chosen;
  if (stays(facts, found, sequence, rejected))
    return { kind: "stay", chosen: sequence, why: WHY_STAY[found.kind], cause, rejected };
  const effects = facts.effects.filter((effect) => effect.entry > chosen.entry);
  return {
    kind: "back",
    chosen: sequence,
    why: whyThis(found, chosen, newestFirst),
    cause,
    rejected,
    adopted: effects.filter(({ unsafe }) => unsafe === null),
    accepted: effects.filter(({ unsafe }) => unsafe !== null),
  };
}

type Against = { readonly kind: Rejection; readonly why: string };

function against(params: {
  readonly candidate: RollbackCandidate;
  readonly facts: RollbackFacts;
  readonly cause: Cause;
  readonly hasFiles: boolean;
  readonly pastEffects: boolean;
}): Against | null {
  const { candidate, facts, cause } = params;
  const { sequence, damage, half } = candidate;
  if (damage !== null) return { kind: damage.kind, why: damage.problem };
  const [step] = half;
  if (step !== undefined) return { kind: "half_step", why: `it was taken in the middle of ${half.join(", ")}` };
  if (candidate.leftBehind) return { kind: "left_behind", why: "the run went back from it already" };
  if (candidate.ended) return { kind: "ended", why: "the run had given up by then" };
  if (params.hasFiles && candidate.tree === null) return { kind: "no_files", why: "it holds no files" };
  const bad = cause.bad.get(filesKey(candidate));
  if (bad !== undefined) return { kind: "known_bad", why: bad };
  if (cause.after !== null && sequence > cause.after)
    return { kind: "after_cause", why: `it comes after checkpoint ${cause.after}, so it may hold the cause` };
  const effect = facts.effects.find((one) => one.unsafe !== null && one.entry > candidate.entry);
  if (effect !== undefined && !params.pastEffects)
    return { kind: "effect", why: `${effect.kind} on ${effect.target} came after it: ${effect.unsafe}` };
  return null;
}

function olderThan(candidate: RollbackCandidate, chosen: RollbackCandidate): Against {
  const same = candidate.tree !== null && candidate.tree === chosen.tree;
  const why = same
    ? `checkpoint ${chosen.sequence} has the same files and is newer`
    : `it would do as well, but checkpoint ${chosen.sequence} is newer and holds more work`;
  return { kind: "older", why };
}

/** Half of a step is no reason to go back when the call that made it can simply be gone on with. */
function stays(facts: RollbackFacts, cause: Cause, chosen: number, rejected: readonly Rejected[]): boolean {
  if (facts.state.kind === "fatal") return false;
  const newer = rejected.filter(({ sequence }) => sequence > chosen && !isLeft(facts, sequence));
  if (isInFiles(cause.kind)) return newer.length === 0;
  return newer.every(({ kind }) => kind === "half_step" && cause.kind === "outside");
}

function isLeft(facts: RollbackFacts, sequence: number): boolean {
  return facts.candidates.some((one) => one.sequence === sequence && one.leftBehind);
}

const GO_ON = "Going back would mend nothing, so the run stays where it is";
const WHY_STAY: Readonly<Record<CauseKind, string>> = {
  none: GO_ON,
  outside: GO_ON,
  flaky: "Going back to other files would not mend that, so the run stays where it is",
  regression: "The files are those from before the cause already",
  oscillation: "The files are those from before the cause already",
  deletion: "The files are those from before the cause already",
  unknown: "Nothing on record points to an earlier state, so the run stays where it is",
};

function whyThis(cause: Cause, chosen: RollbackCandidate, newestFirst: readonly RollbackCandidate[]): string {
  const newest = newestFirst.find((one) => !one.leftBehind && one.damage === null);
  const sameFiles = newest !== undefined && filesKey(newest) === filesKey(chosen);
  switch (cause.kind) {
    case "regression":
    case "oscillation":
    case "deletion":
      return "it is the newest that is whole and surely before the cause";
    case "none":
    case "outside":
    case "flaky":
    case "unknown":
      return `it is the newest that the run can go on from${sameFiles ? ", with the files as they are" : ""}`;
  }
}

function nothingLeft(
  facts: RollbackFacts,
  rejected: readonly Rejected[],
): { readonly why: string; readonly effects: readonly EffectFact[] } {
  if (facts.candidates.length === 0) return { why: `Run ${facts.run} has no checkpoint yet`, effects: [] };
  const barred = new Set(rejected.filter(({ kind }) => kind === "effect").map(({ sequence }) => sequence));
  const from = Math.max(...facts.candidates.filter(({ sequence }) => barred.has(sequence)).map(({ entry }) => entry));
  const effects = facts.effects.filter(({ unsafe, entry }) => unsafe !== null && barred.size > 0 && entry > from);
  const why =
    effects.length === 0
      ? `None of the ${facts.candidates.length} checkpoints of run ${facts.run} is safe to go back to`
      : "Every checkpoint that is surely before the cause is also before an effect that a run could not find again";
  return { why, effects };
}

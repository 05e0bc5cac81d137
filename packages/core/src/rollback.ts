// Finds the cause of a failure in a run's journal and chooses the newest safe checkpoint before it. A pure decision on facts.

import { type RunState, isFailedOrAborted } from "./run.ts";

/** Why a checkpoint is rejected, the simplest reason first: the first that applies is reported. */
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
type Rejection = (typeof REJECTIONS)[number];

// These are types, not interfaces, because they are printed as JSON.
export type Rejected = { readonly sequence: number; readonly kind: Rejection; readonly why: string };
type RollbackCause = { readonly kind: CauseKind; readonly why: string };

export type RollbackChoice =
  /** Roll back to `chosen`. */
  | {
      readonly kind: "back";
      readonly chosen: number;
      readonly why: string;
      readonly cause: RollbackCause;
      readonly rejected: readonly Rejected[];
      /** Effects after it that the run finds again when it continues. */
      readonly adopted: readonly EffectFact[];
      /** Effects after it that cannot be found again, accepted because the user asked for that. */
      readonly accepted: readonly EffectFact[];
    }
  /** A rollback would not help: `chosen` is the run's current position. */
  | {
      readonly kind: "stay";
      readonly chosen: number;
      readonly why: string;
      readonly cause: RollbackCause;
      readonly rejected: readonly Rejected[];
    }
  | {
      readonly kind: "none";
      readonly chosen: null;
      readonly why: string;
      readonly cause: RollbackCause;
      readonly rejected: readonly Rejected[];
      /** Effects that block the checkpoints before the cause; empty: something else does. */
      readonly effects: readonly EffectFact[];
    };

/**
 * Chooses the newest checkpoint that is intact, certainly before the cause, and after every effect that a run could not find again. Each is
 * a hard condition: a checkpoint that fails one is never chosen.
 */
export function chooseRollback(facts: RollbackFacts, options: { readonly pastEffects: boolean }): RollbackChoice {
  const found = findCause(facts);
  const cause: RollbackCause = { kind: found.kind, why: found.why };
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
  if (candidate.ended) return { kind: "ended", why: "the run had failed by then" };
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

/** A half-done step is not a reason for a rollback if its call can be resumed. */
function stays(facts: RollbackFacts, cause: Cause, chosen: number, rejected: readonly Rejected[]): boolean {
  if (isFailedOrAborted(facts.state)) return false;
  const newer = rejected.filter(({ sequence }) => sequence > chosen && !isLeft(facts, sequence));
  if (isInFiles(cause.kind)) return newer.length === 0;
  return newer.every(({ kind }) => kind === "half_step" && cause.kind === "outside");
}

function isLeft(facts: RollbackFacts, sequence: number): boolean {
  return facts.candidates.some((one) => one.sequence === sequence && one.leftBehind);
}

const GO_ON = "Going back would fix nothing, so the run stays where it is";
const WHY_STAY: Readonly<Record<CauseKind, string>> = {
  none: GO_ON,
  outside: GO_ON,
  flaky: "Going back to other files would not fix that, so the run stays where it is",
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
      return `it is the newest that the run can continue from${sameFiles ? ", with the files as they are" : ""}`;
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

/** Everything that the choice depends on: read from the journal once, so that the decision needs no other source. */
export interface RollbackFacts {
  readonly run: string;
  readonly state: RunState;
  /** Every checkpoint that retention has not dropped, in any order. */
  readonly candidates: readonly RollbackCandidate[];
  /** Results on the run's current line of history, oldest first. Results on a line that a restore left are not included. */
  readonly checks: readonly CheckResult[];
  readonly scores: readonly ScoreResult[];
  readonly effects: readonly EffectFact[];
  readonly trouble: Trouble;
}

export interface RollbackCandidate {
  readonly sequence: number;
  /** Journal entry: effects are before or after it. */
  readonly entry: number;
  readonly stage: string;
  readonly iteration: number;
  readonly tree: string | null;
  /** Null: intact. */
  readonly damage: Damage | null;
  /** Steps that were changing files when the checkpoint was taken. */
  readonly half: readonly string[];
  /** A restore went back past it, or replaced files of it. */
  readonly leftBehind: boolean;
  /** The run had ended, or was in the stage that ends it. */
  readonly ended: boolean;
  /** Compared with the checkpoint before it; null: not computed. */
  readonly changed: FileCounts | null;
}

export interface Damage {
  readonly kind: "quarantined" | "damaged";
  readonly problem: string;
}

export interface FileCounts {
  readonly added: number;
  readonly modified: number;
  readonly removed: number;
}

/** The result of a gate, and the files it judged. */
export interface CheckResult {
  readonly name: string;
  readonly entry: number;
  /** The checkpoint that contains the judged files; it may have been dropped. */
  readonly sequence: number;
  /** Equal for equal files. */
  readonly files: string;
  /** Stage attempt in which it was judged; null: there are no stages. */
  readonly stageAttempt: number | null;
  readonly pass: boolean;
  readonly reason: string;
}

export interface ScoreResult {
  readonly entry: number;
  readonly sequence: number;
  readonly files: string;
  readonly score: number;
}

export interface EffectFact {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  /** The entry that settled the effect, or the intent while the outcome is unknown. */
  readonly entry: number;
  /** Null: the run looks it up and adopts it when it continues. Otherwise why it cannot. */
  readonly unsafe: string | null;
}

/** The last failure in the journal. */
export type Trouble =
  | { readonly kind: "none" }
  /** A provider, a network, a budget or a disk failed; the files are not the cause. */
  | { readonly kind: "outside"; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** Identifies equal files; a checkpoint without files equals no other. */
export function filesKey(checkpoint: { readonly tree: string | null; readonly sequence: number }): string {
  return checkpoint.tree ?? `#${checkpoint.sequence}`;
}

/** Why the run failed, as far as its journal shows. */
type Cause = {
  readonly kind: CauseKind;
  /** The cause in plain words. */
  readonly why: string;
  /** The newest checkpoint that certainly does not have the cause; null: no checkpoint has it, or none is known to be without it. */
  readonly after: number | null;
  /** Files that are known to be bad, and why. */
  readonly bad: ReadonlyMap<string, string>;
};

const CAUSE_KINDS = [
  "none", // nothing failed
  "outside", // provider, network, budget, disk
  "flaky", // the same files passed and failed
  "regression", // a check that passed fails, or a score fell
  "oscillation", // two states alternate, neither of them good
  "deletion", // a step removed many files, and the run failed after it
  "unknown",
] as const;
type CauseKind = (typeof CAUSE_KINDS)[number];

/** Whether the cause is in the files, so that other files can help. */
function isInFiles(kind: CauseKind): boolean {
  switch (kind) {
    case "regression":
    case "oscillation":
    case "deletion":
      return true;
    case "none":
    case "outside":
    case "flaky":
    case "unknown":
      return false;
  }
}

/**
 * Finds the cause between the last known good and the first known bad state. External causes come first, because then no files are better
 * than others. Damaged checkpoints are no evidence, so one more of them changes nothing.
 */
export function findCause(facts: RollbackFacts): Cause {
  const { trouble, state } = facts;
  if (state.kind === "done") return plain("none", `Run ${facts.run} is done`);
  if (trouble.kind === "outside") return plain("outside", `${trouble.reason}: no state of the files is to blame`);
  const { regressions, flaky } = findRegressions(facts);
  const line = facts.candidates
    .filter((one) => one.damage === null && !one.leftBehind)
    .toSorted((a, b) => a.sequence - b.sequence);
  const failing = trouble.kind === "failed" || regressions.length > 0;
  if (failing) {
    const loop = findOscillation(facts, line);
    if (loop !== null) return loop;
  }
  if (regressions.length > 0) return joined(regressions);
  const [first] = flaky;
  if (first !== undefined)
    return plain("flaky", `${first.name} passed ${first.passed} and failed ${first.failed} times on the same files`);
  if (trouble.kind === "none") return plain("none", "Nothing in the journal shows a failure");
  return findDeletion(line, trouble.reason) ?? plain("unknown", trouble.reason);
}

function plain(kind: CauseKind, why: string): Cause {
  return { kind, why, after: null, bad: new Map() };
}

/** Goes back before all regressions, so that none of them comes back with the files. */
function joined(regressions: readonly Regression[]): Cause {
  const after = Math.min(...regressions.map((one) => one.after));
  const bad = new Map(regressions.toReversed().flatMap((one) => [...one.bad]));
  return { kind: "regression", why: regressions.map((one) => one.why).join("; "), after, bad };
}

const MANY_REMOVED = 5;

/** If nothing was ever checked, a step that mostly removed files is the most likely cause. */
function findDeletion(line: readonly RollbackCandidate[], reason: string): Cause | null {
  const at = line.findLastIndex(({ changed, half }) => {
    if (changed === null || half.length > 0) return false;
    return changed.removed >= MANY_REMOVED && changed.removed > changed.added + changed.modified;
  });
  const [removed, before] = [line[at], line[at - 1]];
  if (removed === undefined || before === undefined) return null;
  if (line.slice(at).some((one) => filesKey(one) === filesKey(before))) return null;
  const count = removed.changed?.removed ?? 0;
  const why = `${count} files were removed between checkpoints ${before.sequence} and ${removed.sequence}, and then: ${reason}`;
  return { kind: "deletion", why, after: before.sequence, bad: new Map() };
}

/** Something that was good and no longer is. */
interface Regression {
  readonly why: string;
  /** The newest checkpoint known to be good. */
  readonly after: number;
  readonly bad: ReadonlyMap<string, string>;
}

interface Flaky {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
}

function findRegressions(facts: RollbackFacts): {
  readonly regressions: readonly Regression[];
  /** Checks that fail now but are no evidence, because the same files also passed them. */
  readonly flaky: readonly Flaky[];
} {
  const byName = Map.groupBy(facts.checks, (check) => check.name);
  const regressions: Regression[] = [];
  const flaky: Flaky[] = [];
  for (const [name, results] of byName) {
    if (results.at(-1)?.pass !== false) continue;
    const doubt = findFlaky(name, results);
    if (doubt !== null) flaky.push(doubt);
    else regressions.push(...checkRegression(facts, name, results));
  }
  return { regressions: [...regressions, ...scoreRegression(facts)], flaky };
}

function findFlaky(name: string, results: readonly CheckResult[]): Flaky | null {
  for (const same of Map.groupBy(results, (one) => one.files).values()) {
    const passed = same.filter((one) => one.pass).length;
    if (passed > 0 && passed < same.length) return { name, passed, failed: same.length - passed };
  }
  return null;
}

/** Empty if the check never passed: then nothing got worse. */
function checkRegression(facts: RollbackFacts, name: string, results: readonly CheckResult[]): readonly Regression[] {
  const passes = results.filter((one) => one.pass);
  const failed = results.at(-1);
  if (passes.length === 0 || failed === undefined) return [];
  const after = newestWith(facts, passes);
  const bad = results.filter((one) => !one.pass).map((one) => [one.files, `its files fail ${name}`] as const);
  const why = `${name} passed with the files of checkpoint ${after} and fails with those of ${failed.sequence} (${failed.reason})`;
  return [{ why, after, bad: new Map(bad) }];
}

function scoreRegression(facts: RollbackFacts): readonly Regression[] {
  // If the same files were measured again, the newer score counts.
  const scores = new Map<string, ScoreResult>();
  for (const one of facts.scores) {
    scores.delete(one.files);
    scores.set(one.files, one);
  }
  const last = [...scores.values()].at(-1);
  if (last === undefined) return [];
  // A better state that the run cannot go back to is not a reason to leave the current one.
  const here = new Set(facts.candidates.filter(isUsable).map(filesKey));
  const measured = [...scores.values()].filter((one) => one === last || here.has(one.files));
  const best = Math.max(...measured.map((one) => one.score));
  if (last.score >= best) return [];
  const after = newestWith(
    facts,
    measured.filter((one) => one.score === best),
  );
  const bad = measured
    .filter((one) => one.score < best)
    .map((one) => [one.files, `its files scored ${one.score}, those of checkpoint ${after} ${best}`] as const);
  const why = `The score fell from ${best} (checkpoint ${after}) to ${last.score} (checkpoint ${last.sequence})`;
  return [{ why, after, bad: new Map(bad) }];
}

/** The same files may have been saved again after they were judged, and the judged checkpoint may have been dropped. */
function newestWith(facts: RollbackFacts, good: readonly (CheckResult | ScoreResult)[]): number {
  const files = new Set(good.map((one) => one.files));
  const again = facts.candidates.filter((one) => isUsable(one) && files.has(filesKey(one)));
  return Math.max(...[...good, ...again].map((one) => one.sequence));
}

function isUsable({ damage, leftBehind, half }: RollbackCandidate): boolean {
  return damage === null && !leftBehind && half.length === 0;
}

interface State {
  readonly files: string;
  /** Sequence of the first checkpoint with these files, in this turn. */
  readonly first: number;
}

const TURNS = 4;

/**
 * Detects two states that alternate at least twice at the end of the line. If one is better, it is a regression and the better one is the
 * target. If neither is, both only restart the loop.
 */
function findOscillation(facts: RollbackFacts, line: readonly RollbackCandidate[]): Cause | null {
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
  // There was nothing before: the first state is at least not yet the loop.
  const after = (before < 0 ? second.first : start.first) - 1;
  const why = `The files went back and forth between two states ${Math.floor(turns / 2)} times since checkpoint ${start.first}, and neither is better`;
  const files = before < 0 ? [second.files] : [...pair];
  const bad = new Map(
    files.map((key) => [key, "its files are one of the two states that the run went back and forth between"]),
  );
  return { kind: "oscillation", why, after, bad };
}

/** Whether one state passed all of its checks, or scored higher than the other. */
function isBetter(facts: RollbackFacts, pair: readonly string[]): boolean {
  const clean = pair.some((files) => {
    const checks = facts.checks.filter((one) => one.files === files);
    return checks.length > 0 && checks.every((one) => one.pass);
  });
  const [first, second] = pair.map((files) => facts.scores.findLast((one) => one.files === files)?.score);
  return clean || (first !== undefined && second !== undefined && first !== second);
}

import type { RunState } from "./run.ts";

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
type Rejection = (typeof REJECTIONS)[number];

// Types, not interfaces: they are printed as JSON as they are.
export type Rejected = { readonly sequence: number; readonly kind: Rejection; readonly why: string };
type ToldCause = { readonly kind: CauseKind; readonly why: string };

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

/** All that a rollback is chosen from: read from the journal once, and judged without looking anywhere else. */
export interface RollbackFacts {
  readonly run: string;
  readonly state: RunState;
  /** Every checkpoint that is not dropped, in any order. */
  readonly candidates: readonly RollbackCandidate[];
  /** On the line that the run stands on, oldest first; those of a line that a restore left are not here. */
  readonly checks: readonly CheckResult[];
  readonly scores: readonly ScoreResult[];
  readonly effects: readonly EffectFact[];
  readonly trouble: Trouble;
}

export interface RollbackCandidate {
  readonly sequence: number;
  /** Place in the journal: effects are before or after it. */
  readonly entry: number;
  readonly stage: string;
  readonly iteration: number;
  readonly tree: string | null;
  /** null: whole. */
  readonly damage: Damage | null;
  /** Steps that were changing files when it was taken. */
  readonly half: readonly string[];
  /** A restore went back past it, or replaced files of it. */
  readonly leftBehind: boolean;
  /** The run had ended, or stood in the stage that ends it. */
  readonly ended: boolean;
  /** Against the checkpoint before it; null: nobody has looked. */
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

/** What a gate said, and of which files. */
export interface CheckResult {
  readonly name: string;
  readonly entry: number;
  /** The checkpoint that holds the files it judged; it may be dropped by now. */
  readonly sequence: number;
  /** Equal for equal files. */
  readonly files: string;
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
  /** Where it was settled, or intended as long as nobody knows whether it happened. */
  readonly entry: number;
  /** null: looked up and adopted on the way forward. Else why that cannot be. */
  readonly unsafe: string | null;
}

/** What stands last in the journal of things that went wrong. */
export type Trouble =
  | { readonly kind: "none" }
  /** A provider, a network, a budget, a disk: no state of the files is to blame. */
  | { readonly kind: "outside"; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** What "the same files" means; a checkpoint without files is like no other. */
export function filesKey(checkpoint: { readonly tree: string | null; readonly sequence: number }): string {
  return checkpoint.tree ?? `#${checkpoint.sequence}`;
}

/** Why the run failed, as far as its journal tells. */
type Cause = {
  readonly kind: CauseKind;
  /** In plain words. */
  readonly why: string;
  /** The newest checkpoint that is surely without it; null: no checkpoint holds it, or none is known to be without it. */
  readonly after: number | null;
  /** Files that are known to be bad, and what is known of them. */
  readonly bad: ReadonlyMap<string, string>;
};

const CAUSE_KINDS = [
  "none", // nothing failed
  "outside", // provider, network, budget, disk
  "flaky", // the same files passed and failed
  "regression", // a check that passed fails, or a score fell
  "oscillation", // two states in turn, none of them good
  "deletion", // a step removed many files, and the run failed after it
  "unknown",
] as const;
type CauseKind = (typeof CAUSE_KINDS)[number];

/** Is there a state of the files to go back from? */
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
 * The cause lies between what was known to be good and what is known to be bad. What is nobody's fault comes first: no files are
 * better than others then. Damaged checkpoints tell nothing, so that one more of them changes nothing.
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
  if (trouble.kind === "none") return plain("none", "Nothing in the journal tells of a failure");
  return findDeletion(line, trouble.reason) ?? plain("unknown", trouble.reason);
}

function plain(kind: CauseKind, why: string): Cause {
  return { kind, why, after: null, bad: new Map() };
}

/** Before all of them: what still fails must not come back with the rest. */
function joined(regressions: readonly Regression[]): Cause {
  const after = Math.min(...regressions.map((one) => one.after));
  const bad = new Map(regressions.toReversed().flatMap((one) => [...one.bad]));
  return { kind: "regression", why: regressions.map((one) => one.why).join("; "), after, bad };
}

const MANY_REMOVED = 5;

/** Where nothing was ever checked, a step that mostly removed files is the first thing anybody would look at. */
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

/** Something that was good and is not any more. */
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
  /** Fail now, and are no evidence: the same files passed them too. */
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

/** None when it never passed: it is not worse than it was. */
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
  // Measured again, the newer figure counts.
  const scores = new Map<string, ScoreResult>();
  for (const one of facts.scores) {
    scores.delete(one.files);
    scores.set(one.files, one);
  }
  const last = [...scores.values()].at(-1);
  if (last === undefined) return [];
  // A better one that nobody can go back to is no reason to leave what there is.
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

/** The same files may have been saved again since they were judged; and the one that was judged may be dropped. */
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
  /** Of the first checkpoint that holds it, in this turn. */
  readonly first: number;
}

const TURNS = 4;

/**
 * Two states in turn, twice at least, at the end of the line. When one of them is better than the other it is a regression and the better one
 * is where to go; when none is, either of them only begins the loop again.
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

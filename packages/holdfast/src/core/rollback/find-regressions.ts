import { filesKey } from "./facts.ts";
import type { CheckResult, RollbackCandidate, RollbackFacts, ScoreResult } from "./facts.ts";

/** Something that was good and is not any more. */
export interface Regression {
  readonly why: string;
  /** The newest checkpoint known to be good. */
  readonly after: number;
  readonly bad: ReadonlyMap<string, string>;
}

export interface Flaky {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
}

export function findRegressions(facts: RollbackFacts): {
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

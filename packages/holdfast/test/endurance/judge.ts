import type { Scenario } from "./scenarios.ts";
import type { FinalState } from "./final-state.ts";

/** What happened around a kill, besides the final result. */
export interface Story {
  readonly before: {
    readonly finished: readonly string[];
    readonly answered: readonly string[];
    readonly calls: readonly string[];
  };
  readonly end: FinalState;
}

/** Everything in which a run that was killed differs from one that was not, or from what was promised. */
export function judge(
  calm: FinalState,
  { before, end }: Story,
  scenario: Pick<Scenario, "atOnce"> = {},
): readonly string[] {
  const problems = [...end.problems];
  const same = (what: string, is: unknown, was: unknown): void => {
    const [a, b] = [JSON.stringify(is), JSON.stringify(was)];
    if (a !== b) problems.push(`${what}: ${difference(a, b)}`);
  };
  for (const what of SAME) same(what, end[what], calm[what]);
  same("forge", end.forge.toSorted(), calm.forge.toSorted());
  same("finished", end.finished.toSorted(), calm.finished.toSorted());
  const judgeThem = scenario.atOnce === true ? judgeCallsAtOnce : judgeCalls;
  return [...problems, ...judgeThem(calm, { before, end }), ...judgeSpending(calm, { before, end })];
}

const SAME = [
  "state",
  "reason",
  "files",
  "branch",
  "remote",
  "history",
  "pushes",
  "pull",
  "trail",
  "effects",
  "position",
  "values",
] as const satisfies readonly (keyof FinalState)[];

/** The same checks must hold for a run that was not killed. */
export function judgeCalm(scenario: Scenario, calm: FinalState): readonly string[] {
  const problems = [...calm.problems];
  const finished = new Set(calm.finished);
  if (finished.size !== calm.finished.length) problems.push("a step finished twice");
  for (const [path, text] of Object.entries(scenario.expected))
    if (calm.files[path] !== text) problems.push(`${path} holds ${JSON.stringify(calm.files[path])}`);
  problems.push(...(scenario.claims?.(calm) ?? []));
  if (calm.pushes.hook !== calm.pushes.reflog) problems.push("the remote's witnesses differ");
  if (new Set(calm.calls).size !== calm.calls.length) problems.push("an agent was called twice");
  return problems;
}

/** An agent that was at work when its run died works again; none whose answer was written down does. */
function judgeCalls(calm: FinalState, { before, end }: Story): readonly string[] {
  const kept = new Set([...before.finished, ...before.answered]);
  const again = end.calls.slice(before.calls.length).filter((call) => kept.has(stepOf(call)));
  const lost = before.calls.filter((call) => !kept.has(stepOf(call)));
  const expected = [...calm.calls, ...lost].map(stepOf).toSorted();
  const called = end.calls.map(stepOf).toSorted();
  return [
    ...again.map((call) => `the agent was called again for ${call}`),
    ...(JSON.stringify(called) === JSON.stringify(expected)
      ? []
      : [`calls: ${called.join(", ")} instead of ${expected.join(", ")}`]),
  ];
}

/** Those that were about to begin when their run died may or may not have; each ends once, and none begins again after that. */
function judgeCallsAtOnce(calm: FinalState, { before, end }: Story): readonly string[] {
  const again = end.calls.slice(before.calls.length).filter((call) => before.finished.includes(stepOf(call)));
  const counts = Map.groupBy(end.calls, stepOf);
  const wrong = [...new Set([...calm.calls.map(stepOf), ...counts.keys()])].filter((step) => {
    const times = counts.get(step)?.length ?? 0;
    return times < 1 || times > 2;
  });
  return [
    ...again.map((call) => `the agent was called again for ${call}`),
    ...wrong.map((step) => `${step} was called ${counts.get(step)?.length ?? 0} times`),
  ];
}

/**
 * Every call whose answer was recorded is counted once. An interrupted call is counted if it could still report its
 * usage (Ctrl+C allows that), and not if it was killed; every call of a script uses the same amount.
 */
function judgeSpending(calm: FinalState, { before, end }: Story): readonly string[] {
  const { spent } = calm;
  if (end.spent === null || spent === null) return [];
  const lost = before.calls.filter((call) => !before.finished.includes(stepOf(call))).length;
  return (["tokens", "microUsd"] as const).flatMap((what) => {
    const extra = (end.spent?.[what] ?? 0) - spent[what];
    const each = calm.calls.length === 0 ? 0 : spent[what] / calm.calls.length;
    const isWhole = extra === 0 || (each > 0 && extra % each === 0 && extra > 0 && extra <= lost * each);
    return isWhole ? [] : [`spent ${end.spent?.[what]} ${what} instead of ${spent[what]}`];
  });
}

/** Where two texts begin to differ, with the surrounding text. */
function difference(is: string, was: string): string {
  let at = 0;
  while (at < is.length && is[at] === was[at]) at += 1;
  const from = Math.max(0, at - 60);
  return `…${is.slice(from, at + 160)} instead of …${was.slice(from, at + 160)}`;
}

function stepOf(call: string): string {
  return call.split(" ")[0] ?? call;
}

import type { Cause, CauseKind } from "./cause.ts";
import { filesKey } from "./facts.ts";
import type { RollbackCandidate, RollbackFacts } from "./facts.ts";
import { findOscillation } from "./find-oscillation.ts";
import { findRegressions } from "./find-regressions.ts";
import type { Regression } from "./find-regressions.ts";

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

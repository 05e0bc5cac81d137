import { oneLine } from "./clip.ts";
import type { Answer, CheckResult, Iteration, Verification } from "./iteration.ts";
import type { Failing } from "./metrics.ts";

/** What happened in an iteration, in sentences made of facts: what was tried, how it ended, what changed since the one before. */
export function reflectionText(params: {
  readonly answer: Answer;
  readonly verification: Verification;
  readonly quality: number | null;
  /** The iteration before, of the same unit, and what failed then. */
  readonly before: { readonly iteration: Iteration; readonly failing: Failing } | null;
}): string {
  const { answer, verification, quality, before } = params;
  const change = compareFailing(before?.failing ?? null, verification.metrics.failing);
  const lines = [
    tried(answer),
    files(answer.filesChanged),
    ...outcome(verification),
    counts(verification, before?.iteration ?? null),
    named(
      "Now passing",
      verification.metrics.tests === null && verification.verdict !== "passed" ? [] : change.nowPassing,
    ),
    named("Newly failing", change.newlyFailing),
    named(
      before === null ? "Failing" : "Still failing",
      before === null ? verification.metrics.failing.names : change.still,
    ),
    qualityLine(quality, before?.iteration.quality ?? null),
  ];
  return lines.filter((line) => line !== null).join("\n");
}

/** What changed between two lists of failing names. Where a list is not whole, nothing is said of what may be in the rest. */
interface FailingChange {
  readonly nowPassing: readonly string[];
  readonly newlyFailing: readonly string[];
  readonly still: readonly string[];
}

function compareFailing(before: Failing | null, after: Failing): FailingChange {
  const was = new Set(before?.names);
  const is = new Set(after.names);
  return {
    nowPassing: after.more > 0 ? [] : [...was].filter((name) => !is.has(name)),
    newlyFailing: before === null || before.more > 0 ? [] : after.names.filter((name) => !was.has(name)),
    still: after.names.filter((name) => was.has(name)),
  };
}

const MOST_SAID = 400;
const MOST_NAMED = 8;

function tried(answer: Answer): string {
  if (answer.outcome === "failed") return `The agent did not finish (${answer.cause ?? "unknown cause"}).`;
  return answer.said === "" ? "The agent said nothing." : `Tried: ${oneLine(answer.said, MOST_SAID)}`;
}

function files(changed: number | null): string | null {
  if (changed === null) return null;
  return changed === 0 ? "No file changed." : `${plural(changed, "file")} changed.`;
}

function outcome({ verdict, checks }: Verification): readonly string[] {
  switch (verdict) {
    case "passed":
      return ["Every check passed."];
    case "unchecked":
      return ["There is no check."];
    case "failed":
    case "not_run":
      return checks.filter((check) => !(check.kind === "exited" && check.code === 0)).map(ended);
  }
}

/** How a check that did not pass came to its end. */
export function ended(check: Pick<CheckResult, "command" | "kind" | "code">): string {
  const command = `\`${oneLine(check.command, 120)}\``;
  switch (check.kind) {
    case "exited":
      return check.code === null ? `${command} was killed.` : `${command} exited with ${check.code}.`;
    case "timed_out":
      return `${command} took too long.`;
    case "interrupted":
      return `${command} was interrupted.`;
    case "not_started":
      return `${command} could not be started.`;
  }
}

function counts({ metrics }: Verification, before: Iteration | null): string | null {
  const { tests, errors } = metrics;
  const parts = [
    tests === null
      ? null
      : `${tests.failed} of ${plural(tests.passed + tests.failed, "test")} fail${since(before?.tests?.failed, tests.failed)}`,
    errors === null ? null : `${plural(errors, "error")} of compilers and linters${since(before?.errors, errors)}`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : `${parts.join("; ")}.`;
}

function since(was: number | null | undefined, is: number): string {
  return was === null || was === undefined || was === is ? "" : ` (before: ${was})`;
}

function named(title: string, names: readonly string[]): string | null {
  if (names.length === 0) return null;
  const shown = names.slice(0, MOST_NAMED).map((name) => oneLine(name, 100));
  const left = names.length - shown.length;
  return `${title}: ${shown.join(", ")}${left > 0 ? ` and ${left} more` : ""}.`;
}

function qualityLine(quality: number | null, before: number | null): string | null {
  if (quality === null) return null;
  const shown = Math.round(quality * 10) / 10;
  return before === null || before === quality
    ? `Quality ${shown}.`
    : `Quality ${shown} (before: ${Math.round(before * 10) / 10}).`;
}

function plural(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

// The verify stage of ralph: runs the check commands and turns their output into a verdict and a failure signature.

import type { CommandResult } from "@holdfast/core/commands";
import { type Digest, sha256 } from "@holdfast/core/json";
import { maskSecrets } from "@holdfast/core/mask";
import type { StageResult } from "@holdfast/core/transitions";
import { commitWork } from "../branch.ts";
import { type Worktree, openWorktree, stageTime, stageHead } from "../worktree.ts";
import { clip, truncateStart } from "../text.ts";
import { joinMetrics, outputLines, readMetrics } from "./check-output.ts";
import {
  type CheckResult,
  type Failing,
  type IterationVerdict,
  type Metrics,
  type Verification,
  noMetrics,
} from "./iteration.ts";
import type { Check } from "./options.ts";
import {
  type RalphContext,
  type RalphDependencies,
  type RalphState,
  currentUnit,
  outputFiles,
  recordEvent,
} from "./state.ts";

/** Checks the criterion. Only its commands decide, not the agent's own report. */
export async function verifyStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const { checks } = currentUnit(work, context);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const ran = await runChecks(work, context, worktree, checks);
  if (ran.length > 0 && ran.every(hasPassed)) await commitChecked(context, worktree, { ran, at });
  const { iteration } = context.position;
  const verification = readVerification({ number: iteration, planned: checks.length, ended: ran });
  await recordEvent(context, { kind: "verified", verification });
  const completed = context.state.answer?.outcome === "completed";
  switch (verification.verdict) {
    case "passed":
      return { event: "verify_pass", reason: ran.map(checkText).join(", ") };
    case "unchecked":
      return completed
        ? { event: "verify_pass", reason: "The agent says that it is done; there is nothing to check it with" }
        : { event: "verify_fail", reason: "The agent failed, and there is nothing to check its work with" };
    case "failed":
    case "not_run":
      return {
        event: "verify_fail",
        reason: ran
          .filter((one) => !hasPassed(one))
          .map(checkText)
          .join(", "),
      };
  }
}

/**
 * The result of one check command with the end of its output. This is a type alias because a step's result must be
 * JSON.
 */
export type RanCheck = {
  readonly command: string;
  readonly kind: CommandResult["kind"];
  readonly code: number | null;
  readonly milliseconds: number;
  readonly output: string;
};

/** Output characters stored in the journal per check: enough for the summary that test runners print last. */
const OUTPUT_CHARACTERS = 20_000;

/**
 * Runs every command on the current files in order, once per stage attempt. A failing command does not skip the next
 * ones.
 */
export async function runChecks(
  { adapters }: RalphDependencies,
  context: RalphContext,
  { root, outputs }: Worktree,
  checks: readonly Check[],
): Promise<readonly RanCheck[]> {
  const ran: RanCheck[] = [];
  if (checks.length > 0) await context.prepareWorktree();
  for (const [index, { command, timeoutMs }] of checks.entries()) {
    const result = await context.step(
      `check-${index + 1}`,
      async ({ mark, signal }) => {
        const { kind, code, milliseconds, output } = await adapters.commands.run({
          command,
          cwd: root,
          mark,
          timeoutMs,
          signal,
          env: { HOLDFAST_ITERATION: String(context.position.iteration) },
        });
        // An interrupted command gives no verdict, so the step must run again.
        signal.throwIfAborted();
        return { command, kind, code, milliseconds, output: truncateStart(output, OUTPUT_CHARACTERS) };
      },
      { changesFiles: true, title: `running ${command}` },
    );
    await outputs.write(outputFiles.check(context.position.iteration, index + 1), result.output);
    ran.push(result);
  }
  return ran;
}

export function hasPassed({ kind, code }: Pick<RanCheck, "kind" | "code">): boolean {
  return kind === "exited" && code === 0;
}

/** Commits what a passing command changed (a formatter, a snapshot), because it is part of the work. */
export async function commitChecked(
  context: RalphContext,
  worktree: Worktree,
  params: { readonly ran: readonly RanCheck[]; readonly at: string },
): Promise<void> {
  const before = await stageHead(context, worktree.branch);
  const message = `Changes made by ${params.ran.map(({ command }) => command).join("; ")}\n`;
  await commitWork(context, worktree, { step: "commit", message: message.replaceAll("\0", ""), before, at: params.at });
}

/** Example: "npm test failed with exit 1". */
export function checkText({ command, kind, code }: Pick<RanCheck, "command" | "kind" | "code">): string {
  switch (kind) {
    case "exited":
      if (code === 0) return `${command} passed`;
      return code === null ? `${command} was killed` : `${command} failed with exit ${code}`;
    case "timed_out":
      return `${command} took too long`;
    case "interrupted":
      return `${command} was interrupted`;
    case "not_started":
      return `${command} could not be started`;
  }
}

/** The result of a check command, as the command adapter reports it. */
export interface EndedCheck {
  readonly command: string;
  readonly kind: CheckResult["kind"];
  readonly code: number | null;
  readonly output: string;
  readonly milliseconds: number;
}

/**
 * Summarises the checks of an iteration; all values are bounded. `planned` is the unit's number of checks; with fewer
 * results the verdict is never passed. Only exit codes decide: numbers in the output never turn a failure into a pass.
 */
export function readVerification(params: {
  readonly number: number;
  readonly planned: number;
  readonly ended: readonly EndedCheck[];
}): Verification {
  const checks = params.ended.map(readCheck);
  const signatures = checks.flatMap((check) => check.signature ?? []);
  return {
    number: params.number,
    verdict: verdictOf(params.planned, checks),
    checks,
    metrics: joinMetrics(checks.map((check) => check.metrics)),
    signature: signatures.length <= 1 ? (signatures[0] ?? null) : sha256(signatures.join(" ")),
  };
}

function readCheck(check: EndedCheck): CheckResult {
  const { kind, code } = check;
  const lines = outputLines(check.output);
  const judged = isJudged(check);
  const metrics = judged ? readMetrics(lines) : noMetrics;
  const passed = hasPassed(check);
  return {
    command: clip(check.command, MOST_COMMAND),
    kind,
    code,
    milliseconds: Math.max(0, Math.round(check.milliseconds)),
    metrics,
    excerpt: passed ? "" : excerptOf(lines),
    signature: passed || !judged ? null : signatureOf({ kind, code, metrics, lines }),
  };
}

/** An interrupted command, or one that could not be started, says nothing about the files. */
function isJudged({ kind }: Pick<RanCheck, "kind">): boolean {
  return kind === "exited" || kind === "timed_out";
}

function verdictOf(planned: number, checks: readonly CheckResult[]): IterationVerdict {
  if (planned === 0) return "unchecked";
  if (checks.some((check) => isJudged(check) && !hasPassed(check))) return "failed";
  return checks.filter(hasPassed).length >= planned ? "passed" : "not_run";
}

const MOST_COMMAND = 500;
const MOST_EXCERPT = 6_000;
const MOST_HEAD = 2_000;
const MOST_LOOKED_AT = 200_000;

/**
 * Keeps the start of the first failure and the end, where tools print their summary. Secrets are masked before the cut,
 * because half a secret is not recognised.
 */
function excerptOf(lines: readonly string[]): string {
  const text = maskSecrets(lines.join("\n").slice(-MOST_LOOKED_AT)).trim();
  if (text.length <= MOST_EXCERPT) return text;
  const first = text.search(BEGINS);
  const head = first < 0 ? "" : `${text.slice(first, first + MOST_HEAD).toWellFormed()}\n…\n`;
  return `${head}${text.slice(head.length - MOST_EXCERPT).toWellFormed()}`;
}

const BEGINS = /^[ \t]{0,20}(?:FAIL|not ok|✖|×|●|E {2}|--- FAIL|error|panicked|thread '|Traceback|\S{1,200}: error)/m;

/**
 * Identifies a failure independent of its duration and place: how the command ended, what fails, and the relevant lines
 * in any order. Times, addresses, positions in files and temporary paths are removed. Other numbers remain: 12 problems
 * and then 10 are not the same failure, and a loop that makes progress must not count as stuck. null: the command
 * printed nothing, and an exit code alone identifies no failure.
 */
function signatureOf(params: {
  readonly kind: string;
  readonly code: number | null;
  readonly metrics: Metrics;
  readonly lines: readonly string[];
}): Digest | null {
  const { kind, code, metrics } = params;
  const lines = params.lines.map(timeless).filter((line) => line !== "");
  if (lines.length === 0) return null;
  const notable = [...new Set(lines.filter((line) => TELLING.test(line)))].toSorted().slice(0, MOST_LINES);
  const shown = notable.length > 0 ? notable : lines.slice(-MOST_LINES);
  const { failing, tests, errors } = metrics;
  return sha256(JSON.stringify([kind, code, failing.names, failing.more, tests?.failed ?? null, errors, shown]));
}

/** Returns null if no names are known. */
export function failingDigest({ names, more }: Failing): Digest | null {
  return names.length === 0 ? null : sha256(JSON.stringify([names, more]));
}

const MOST_LINES = 40;
const MOST_LINE = 200;
const TELLING = /error|expected|assert|panic|exception|fail|cannot|undefined|unexpected|not found/i;

function timeless(line: string): string {
  return line
    .slice(0, MOST_LINE)
    .replace(/\/(?:tmp|var\/folders|private\/tmp)\/\S{0,200}/g, "<temporary>")
    .replace(/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?\S{0,12})?|\b\d\d?:\d\d:\d\d(?:\.\d{1,9})?\b/g, "<time>")
    .replace(/\b\d{1,12}(?:\.\d{1,12})? ?(?:ms|µs|us|ns|s|sec|secs|seconds?|m|min|minutes?)\b/g, "<time>")
    .replace(/\b0x[0-9a-f]{1,40}\b/gi, "<id>")
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]{0,40}\d)[0-9a-f]{7,64}\b/gi, "<id>")
    .replace(/(\.[A-Za-z]{1,6}):\d{1,9}(?::\d{1,9})?\b|\(\d{1,9},\d{1,9}\)|\bline \d{1,9}\b/g, "$1<place>")
    .replace(/\(\d{3,12}\)|\b\d{5,}\b|duration_ms:? \d[\d.]{0,20}/g, "<number>")
    .trim();
}

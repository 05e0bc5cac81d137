// The fatal stage of impl: restores the best-reviewed files where that helps, and writes a failure report.

import type { JsonObject } from "@holdfast/core/json";
import { type Position, counterOf } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import { commitWork } from "../branch.ts";
import { OUTPUT_DIRECTORY, openWorktree, prettyJson, readWholeCheckpoint, stageTime, stageHead } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import { type ImplContext, type ImplDependencies, type ImplState, NO_ISSUE, issueHeading } from "./state.ts";

const DIFF_BYTES = 200_000;

/** Restores the files of the best review if later reviews did not improve, and always writes a report. */
export async function fatalStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const reason = position.reason ?? "The run gave up without a reason";
  if (context.workspace === undefined) return { event: "fatal", reason };
  const worktree = await openWorktree(work, context);
  const { branch, outputs } = worktree;
  const at = await stageTime(context);
  const returnedTo = await findBestCheckpoint(work, context);
  if (returnedTo !== null) {
    const before = await stageHead(context, branch);
    await context.restoreFiles("best", returnedTo);
    const message = `${issueHeading(state.issue ?? { number: NO_ISSUE })}: back to the best-reviewed state (${returnedTo.score})\n`;
    await commitWork(context, worktree, { step: "commit", message, before, at });
  }
  const diff =
    state.base === null
      ? null
      : await branch.diffSince({ from: state.base.commit, exclude: [OUTPUT_DIRECTORY], maxBytes: DIFF_BYTES });
  const report = failureReport({ position, state, reason, at, diff, returnedTo });
  await outputs.write(outputFiles.fatal(Date.parse(at)), prettyJson(report.json));
  await outputs.write(outputFiles.stuckReport, report.text);
  return { event: "fatal", reason, state: { ...state, stuckReport: report.text } };
}

interface StuckReport {
  readonly json: JsonObject;
  /** The same report as Markdown for people. */
  readonly text: string;
}

/** Reports why a run failed, its best result, the failing gate, what it tried and what it cost. */
function failureReport(params: {
  readonly position: Position;
  readonly state: ImplState;
  readonly reason: string;
  readonly at: string;
  /** The present change since the base; null without a base. */
  readonly diff: { readonly text: string; readonly cut: boolean } | null;
  /** The checkpoint whose files were restored, with its score; null: the files are as the last stage left them. */
  readonly returnedTo: Position["best"];
}): StuckReport {
  const { position, state, reason, returnedTo, diff } = params;
  const last = state.history.at(-1);
  const { tokens, microUsd, milliseconds, unpriced = 0, uncounted = 0 } = position.budget.spent;
  const tried = state.history.map(
    (entry) =>
      `${entry.stage}, iteration ${entry.iteration}: ${entry.event}${entry.score === null ? "" : ` (${entry.score})`}: ${entry.reason}`,
  );
  const json: JsonObject = {
    stage: last?.stage ?? position.stage,
    event: "fatal",
    iteration: position.iteration,
    reason,
    details: state.failing?.detail ?? position.feedback ?? "",
    timestamp: params.at,
    best: position.best === null ? null : { ...position.best, returned_to: returnedTo !== null },
    failing_gate: state.failing === null ? null : { ...state.failing },
    tried,
    attempts: { ...position.attempts },
    streaks: { ...position.streaks },
    cost: {
      tokens: uncounted > 0 && tokens === 0 ? null : tokens,
      uncounted_calls: uncounted,
      micro_usd: unpriced > 0 && microUsd === 0 ? null : microUsd,
      unpriced_calls: unpriced,
      milliseconds,
    },
    diff: diff?.text ?? null,
  };
  return { json, text: reportText({ ...params, tried }) };
}

/** A call of unknown usage is not reported as zero tokens. */
function tokensOf({ tokens, uncounted = 0 }: Position["budget"]["spent"]): string {
  if (uncounted === 0) return `${tokens} tokens`;
  return tokens === 0 ? "tokens unknown" : `${tokens} tokens and calls of unknown usage (${uncounted})`;
}

/** A call with an unknown price is not reported as free. */
function moneyOf({ microUsd, unpriced = 0 }: Position["budget"]["spent"]): string {
  const known = `${(microUsd / 1_000_000).toFixed(2)} USD`;
  if (unpriced === 0) return known;
  return microUsd === 0 ? "money unknown" : `${known} and calls of unknown price (${unpriced})`;
}

function reportText(params: Parameters<typeof failureReport>[0] & { readonly tried: readonly string[] }): string {
  const { position, state, returnedTo, diff } = params;
  const { milliseconds } = position.budget.spent;
  const lines = [
    `# ${state.issue === null ? "Issue" : issueHeading(state.issue)} was not finished`,
    "",
    params.reason,
    "",
    returnedTo === null
      ? "The files are as the last stage left them."
      : `The files are those of checkpoint ${returnedTo.sequence}, which had the best review (${returnedTo.score}).`,
    `Cost: ${tokensOf(position.budget.spent)}, ${moneyOf(position.budget.spent)}, ${Math.round(milliseconds / 1000)} s.`,
    ...(state.failing === null ? [] : ["", `## What failed: ${state.failing.gate}`, "", state.failing.detail]),
    "",
    "## What was tried",
    "",
    ...params.tried.map((one) => `- ${one}`),
    ...(diff === null
      ? []
      : ["", `## The change${diff.cut ? " (its beginning)" : ""}`, "", "```diff", diff.text.trimEnd(), "```"]),
  ];
  return `${lines.join("\n")}\n`;
}

/** Null if the chosen checkpoint no longer exists: the run then keeps its newest files. */
async function findBestCheckpoint({ adapters }: ImplDependencies, context: ImplContext): Promise<Position["best"]> {
  const { run, position, state } = context;
  const best = chooseBestCheckpoint(position, state);
  if (best === null) return null;
  const ref = { run: run.id, ...best };
  const exists = async (): Promise<boolean> => (await readWholeCheckpoint(adapters.store, ref)) !== null;
  return (await context.step("best-checkpoint", exists, { title: "finding the best checkpoint" })) ? best : null;
}

/**
 * Returns the checkpoint whose files a failed run restores, or null. Applies only if reviews reached a plateau or
 * regressed: the last one failed and was no better than an earlier one. A run that fails for another reason keeps its
 * newest files.
 */
export function chooseBestCheckpoint(
  position: Pick<Position, "best" | "streaks">,
  state: Pick<ImplState, "reviews">,
): Position["best"] {
  const last = state.reviews.at(-1);
  if (last === undefined || last.pass || counterOf(position.streaks, "review") < 2) return null;
  return position.best;
}

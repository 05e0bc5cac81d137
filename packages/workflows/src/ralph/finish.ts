// The last stages of ralph: publish, fail with the best files, and roll back to the best iteration, with their texts.

import type { Adapters } from "@holdfast/core/adapters";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { StageResult } from "@holdfast/core/transitions";
import { REFUSAL_RESPONSE, checkRemoteBranch, commitWork, pushBranch } from "../branch.ts";
import { callForge } from "../forge.ts";
import { openPullRequest } from "../pull-request.ts";
import { formBody, formTitle, inCode } from "../pull-request-text.ts";
import { type RepositoryFacts, readRepositoryFacts } from "../repository-facts.ts";
import { type Worktree, openWorktree, readWholeCheckpoint, requireForge, stageTime, stageHead } from "../worktree.ts";
import type { Iteration } from "./iteration.ts";
import type { RalphOptions } from "./options.ts";
import {
  type RalphContext,
  type RalphDependencies,
  type RalphState,
  outputFiles,
  parseRalphState,
  recordEvent,
} from "./state.ts";

/** Ends a successful loop: its commits remain on the branch and, if requested, a pull request is opened. */
export async function publishStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const worktree = await openWorktree(work, context);
  const { state, position } = context;
  const done = position.reason ?? "The criterion passes";
  const head = await stageHead(context, worktree.branch);
  await worktree.outputs.write(outputFiles.report, loopReport({ state, reason: done, options: work.options }));
  if (head === state.began) return { event: "published", reason: `${done}; no file had to be changed` };
  if (!work.options.pullRequest)
    return { event: "published", reason: `${done}; the commits are on ${worktree.branch.name}` };
  return await publish(work, context, { worktree, head, done });
}

async function publish(
  work: RalphDependencies,
  context: RalphContext,
  params: { readonly worktree: Worktree; readonly head: string; readonly done: string },
): Promise<StageResult<RalphState>> {
  const { worktree, head } = params;
  const { state, inputs } = context;
  const forge = await requireForge(work, context);
  const remote = await checkRemoteBranch(context, worktree, { head });
  if (remote.kind === "stop") return { event: "fatal", reason: remote.reason };
  const pushed = await pushBranch(context, worktree, { head, expected: remote.expected });
  if (pushed.kind === "refused") {
    const reason = `The push to ${pushed.remote} was refused (${pushed.refusal.cause}): ${pushed.refusal.message.trim()}`;
    if (REFUSAL_RESPONSE[pushed.refusal.cause] !== "fixable") return { event: "fatal", reason };
    // All units were done; the last unit becomes the current one again.
    const again: RalphState = { ...state, unit: Math.max(0, state.unit - 1), tries: 0 };
    return { event: "push_refused", reason, state: again, feedback: `${reason}. Fix what it reports.` };
  }
  const after: RalphState = { ...state, pushed: pushed.commit };
  const facts = await context.step(
    "repository",
    () => readRepositoryFacts(worktree.branch, { commit: state.base?.commit ?? head, forge: forge.name }),
    { title: "reading the repository's conventions" },
  );
  const opened = await openPullRequest(context, forge, {
    purpose: "pull-request",
    ...pullRequestText({ state, issue: inputs.issue, options: work.options, facts, run: context.run.id }),
    head: worktree.branch.name,
    base: state.base?.branch ?? (await callForge(context, () => forge.defaultBranch())),
    draft: work.options.draft,
  });
  if (opened.kind === "nothing_new")
    return { event: "fatal", reason: `No pull request could be opened: ${opened.reason}`, state: after };
  const { request } = opened;
  const reason = `${params.done}. Pull request #${request.number} is open: ${request.url}`;
  return { event: "published", reason, state: { ...after, pullRequest: request } };
}

/** Ends a failed loop: restores the best files and writes a report of all iterations. */
export async function failStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const { position, state } = context;
  const reason = position.reason ?? "The loop gave up without a reason";
  const event = position.stage === "limit" ? "limit_reached" : "fatal";
  if (context.workspace === undefined) return { event, reason };
  const worktree = await openWorktree(work, context);
  const best = chooseBestIteration(state);
  if (best !== null && !(await returnToBest(work.adapters, context, worktree, best)))
    await context.note(
      `The checkpoint of iteration ${best.iteration} is gone: the files stay those of the last iteration`,
    );
  await worktree.outputs.write(outputFiles.report, loopReport({ state, reason, options: work.options }));
  return { event, reason };
}

/** Restores the files of the best iteration. The next prompt says what has failed since. */
export async function rollbackStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const { state, position } = context;
  const { best } = state;
  const why = position.reason ?? "The loop is stuck";
  if (best === null) return { event: "fatal", reason: `${why}, and there is no iteration to go back to` };
  const worktree = await openWorktree(work, context);
  if (!(await returnToBest(work.adapters, context, worktree, best)))
    return { event: "fatal", reason: `${why}, and the checkpoint of iteration ${best.iteration} is gone` };
  const intervention = { kind: "rolled_back", at: position.iteration, to: best.iteration } as const;
  await recordEvent(context, { kind: "intervened", intervention });
  return {
    event: "went_back",
    reason: `The files are those of iteration ${best.iteration} again`,
    feedback: `${why}. The files were put back to those of iteration ${best.iteration}; what iterations ${best.iteration + 1} to ${position.iteration} tried is gone. It did not work: take another way, not the same one again.`,
  };
}

/** The iteration whose files a failed loop restores; null: the newest files are the best. */
export function chooseBestIteration(state: Pick<RalphState, "best" | "iterations">): RalphState["best"] {
  const { best, iterations } = state;
  const last = iterations.at(-1);
  if (best === null || last === undefined || best.iteration === last.number) return null;
  // In a flow, later steps build on the files of earlier ones, so their iterations cannot be compared.
  if (best.unit !== last.unit || best.tree === last.tree) return null;
  // If the best iteration is not better than the last one, the newer work is worth more.
  return last.quality !== null && last.quality >= best.quality ? null : best;
}

/** Describes the files before they are restored, because the reason of an end is recorded when its stage starts. */
export function bestFilesNote(state: Pick<RalphState, "best" | "iterations">): string {
  const best = chooseBestIteration(state);
  if (best !== null)
    return `The files are those of iteration ${best.iteration}, the best (quality ${Math.round(best.quality)})`;
  return "The files are those of the last iteration";
}

/**
 * Restores the files of the best iteration as a new commit, so that later work remains in the history. Returns false if
 * the checkpoint no longer exists.
 */
async function returnToBest(
  adapters: Adapters,
  context: RalphContext,
  worktree: Worktree,
  best: NonNullable<RalphState["best"]>,
): Promise<boolean> {
  const at = await stageTime(context);
  const checkpoint = await context.step("best-checkpoint", () => findCheckpoint(adapters, context, best), {
    title: "finding the best checkpoint",
  });
  if (checkpoint === null) return false;
  const before = await stageHead(context, worktree.branch);
  await context.restoreFiles("best", checkpoint);
  const message = `Back to iteration ${best.iteration}, the best so far (quality ${Math.round(best.quality)})\n`;
  await commitWork(context, worktree, { step: "commit", message, before, at });
  return true;
}

/**
 * The position protects the best-scored checkpoint from retention, and usually that is the one. Any other checkpoint
 * with the same files works too.
 */
async function findCheckpoint(
  { store }: Adapters,
  { run, position }: RalphContext,
  best: NonNullable<RalphState["best"]>,
): Promise<{ run: string; sequence: number } | null> {
  const kept = position.best === null ? null : await readWholeCheckpoint(store, { run: run.id, ...position.best });
  if (kept !== null && parseRalphState(kept.planes.context.values).iterations.at(-1)?.number === best.iteration)
    return { run: kept.run, sequence: kept.sequence };
  const all = await store.listCheckpoints({ run: run.id });
  const same = all.find(({ tree, quarantined }) => !quarantined && tree !== null && tree === best.tree);
  return same === undefined ? null : { run: run.id, sequence: same.sequence };
}

/** A Markdown report of the loop for people. */
function loopReport(params: {
  readonly state: RalphState;
  readonly reason: string;
  readonly options: Pick<RalphOptions, "task" | "until">;
}): string {
  const { state, reason, options } = params;
  return [
    `# ${state.loopId ?? "A loop"}`,
    "",
    `${reason}.`,
    "",
    `Task: ${options.task}`,
    ...options.until.map(({ command }) => `Until: \`${command}\``),
    ...section(
      "Iterations",
      state.iterations.map((one) => `- ${iterationText(one)}`),
    ),
    ...section(
      "What was found",
      state.findings.map(({ sentence }) => `- ${sentence}`),
    ),
    ...section(
      "What was learned",
      state.learnings.map(({ iteration, text }) => `- ${text} (iteration ${iteration})`),
    ),
    "",
  ].join("\n");
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines];
}

const SHOWN = 20;

/** The pull request's title and body: the task, the checks that pass, and the iterations. */
function pullRequestText(params: {
  readonly state: RalphState;
  readonly issue: Pick<IssueSnapshot, "number" | "title"> | null;
  readonly options: Pick<RalphOptions, "task" | "until" | "attribution">;
  readonly facts: RepositoryFacts;
  readonly run: string;
}): { readonly title: string; readonly body: string } {
  const { state, issue, options, facts } = params;
  const [first = ""] = options.task.trim().split("\n");
  const name = issue?.title ?? first;
  const left = state.totals.iterations - SHOWN;
  const words = [
    ...(issue === null ? [options.task.trim(), ""] : []),
    ...(left > 0 ? [`… ${left} iterations before these`, ""] : []),
    ...state.iterations.slice(-SHOWN).map((one) => `- ${iterationText(one)}`),
  ].join("\n");
  const { titles, template } = facts;
  return {
    title: formTitle({
      proposed: titles.form === null ? null : name,
      otherwise: name || "The work of a loop",
      issue: issue?.number ?? null,
      form: titles.form ?? "plain",
      tags: ["feat", ...titles.tags],
    }),
    body: formBody({
      words,
      template: template?.text ?? null,
      tested: options.until.map(({ command }) => `${inCode(command)} passes`),
      issue: issue?.number ?? null,
      madeBy: options.attribution ? params.run : null,
    }),
  };
}

/** Example: "Iteration 3 failed: 2 of 10 tests fail, 1 error, quality 72". */
export function iterationText(iteration: Iteration): string {
  const { number, verdict, tests, errors, quality } = iteration;
  const facts = [
    ...(tests === null ? [] : [testsText(tests)]),
    ...(errors === null || errors === 0 ? [] : [errors === 1 ? "1 error" : `${errors} errors`]),
    ...(quality === null ? [] : [`quality ${Math.round(quality)}`]),
  ];
  return `Iteration ${number} ${VERDICT[verdict]}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`;
}

const VERDICT: Readonly<Record<Iteration["verdict"], string>> = {
  passed: "passed",
  failed: "failed",
  unchecked: "was not checked",
  not_run: "could not be checked",
};

function testsText({ passed, failed }: NonNullable<Iteration["tests"]>): string {
  const all = passed + failed;
  return failed === 0 ? `${all} of ${all} tests pass` : `${failed} of ${all} tests fail`;
}

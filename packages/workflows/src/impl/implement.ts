// The impl and simplify stages: the agent's prompt, its completion marker, its commit and the gates for its result.

import { splitAgent } from "@holdfast/core/agent";
import { counterOf } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import type { AgentReport, Fence } from "@holdfast/core/workflow";
import { commitWork } from "../branch.ts";
import { issueText } from "../forge.ts";
import { expandTemplate } from "../prompts.ts";
import { OUTPUT_DIRECTORY, type Worktree, newestCheckpoint, openWorktree, stageTime, stageHead } from "../worktree.ts";
import { truncateStart } from "../text.ts";
import { runGates } from "./gates.ts";
import { outputFiles } from "./layout.ts";
import { type Plan, planSection, writePlan } from "./plan.ts";
import {
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type Issue,
  type Progress,
  type PullRequestProposal,
  conclude,
  requireSetup,
  NO_ISSUE,
  issueHeading,
  issueName,
} from "./state.ts";
import { type TaskFacts, factsSection, titleForm } from "./task-facts.ts";

const KEPT_CHARACTERS = 16_000;

/**
 * Runs one iteration: the agent works, Holdfast commits its changes, and the gates check a result that the agent calls
 * complete.
 */
export async function implStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { issue, base, templates } = requireSetup(state);
  const { iteration } = position;
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await stageHead(context, worktree.branch);
  const marker = completionMarker({
    issue: issue.number,
    iteration,
    run: context.run.id,
    stageAttempt: position.stageAttempt.number,
  });
  const prompt = await writePrompts(work, context, marker);

  const files = { finalize: outputFiles.finalize, report: outputFiles.commitReport(iteration) };
  const report = await context.agent({
    name: "agent",
    title: "the agent implements",
    role: "impl",
    prompt,
    continuation: expandTemplate(templates.continue, {
      issue_no: String(issue.number),
      issue_file: outputFiles.issue(issue.number),
      finalize_file: files.finalize,
      commit_report_file: files.report,
      marker,
    }),
    model: work.options.implModel,
    yolo: work.options.yolo,
    ...(work.options.agentTimeoutMs === null ? {} : { timeoutMs: work.options.agentTimeoutMs }),
    collect: [files.finalize, files.report],
    env: {
      HOLDFAST_ISSUE: issue.number === NO_ISSUE ? "" : String(issue.number),
      HOLDFAST_COMPLETION: marker,
      HOLDFAST_FINALIZE_FILE: files.finalize,
      HOLDFAST_COMMIT_REPORT: files.report,
    },
  });
  await worktree.outputs.write(outputFiles.output, report.text);
  const collected = (path: string): string | null => report.collected[path] ?? null;
  const commitReport = collected(files.report);
  const { head, moved } = await commitWork(context, worktree, {
    step: "commit",
    message: commitMessage({ report: commitReport, issue, iteration }),
    before,
    at,
  });
  const next: ImplState = {
    ...state,
    output: truncateStart(report.text, KEPT_CHARACTERS),
    commitReport: commitReport === null ? null : truncateStart(commitReport, KEPT_CHARACTERS),
  };
  const finalize = collected(files.finalize);
  if (!isRoundDone(report, { finalize, marker, named: work.options.implModel })) {
    const progress: Progress = moved || report.changed === true ? "changed" : "none";
    return conclude(context, {
      event: "impl_not_done",
      reason: incomplete(report, files.finalize),
      state: { ...next, progress },
    });
  }

  const commits = { from: base.commit, to: head };
  const changed = await context.step(
    "changed",
    async () => (await worktree.branch.changedBetween({ ...commits, exclude: [OUTPUT_DIRECTORY] })).length,
    { title: "comparing with the base" },
  );
  if (changed === 0) return await emptyResult(context, next);

  const done: ImplState = { ...next, progress: "complete", finalize: parseFinalize(finalize ?? "") };
  const verdict = await runGates(work, context, worktree, { ...commits, commitAt: at });
  if (verdict.kind === "passed")
    return conclude(context, {
      event: "impl_done",
      reason: `Iteration ${iteration} is complete`,
      state: { ...done, ...verdict.ran, failing: null },
      feedback: null,
    });
  return conclude(context, {
    // A failing command means unfinished work. Only files that do not parse count towards the parse limit.
    event: verdict.gate === "parse" ? "parse_fail" : "impl_not_done",
    reason: verdict.reason,
    state: { ...done, ...verdict.ran, failing: verdict.failing },
    feedback: verdict.failing.detail,
  });
}

/**
 * A completion without any change is not complete and is not reviewed. The second time in a row, the run asks the user.
 */
async function emptyResult(context: ImplContext, state: ImplState): Promise<StageResult<ImplState>> {
  const { issue, base } = requireSetup(state);
  const reason = `The agent called ${issueName(issue)} done, but no file differs from ${base.branch}`;
  if (context.state.progress === "empty") {
    const answer = await context.decide({
      name: "empty-change",
      question: `${reason}, for the second time in a row. Let it try again, or stop?`,
      options: ["again", "stop"],
    });
    if (answer === "stop") return conclude(context, { event: "fatal", reason: `Stopped by you: ${reason}`, state });
  }
  const feedback = `${reason}. Make the change that ${issue.number === NO_ISSUE ? "the task" : "the issue"} asks for in the files of this directory. If you write the completion marker, write it again.`;
  return conclude(context, { event: "impl_not_done", reason, state: { ...state, progress: "empty" }, feedback });
}

async function writePrompts(work: ImplDependencies, context: ImplContext, marker: string): Promise<string> {
  const { position, state } = context;
  const { issue, base, templates } = requireSetup(state);
  const { outputs } = await openWorktree(work, context);
  const fence = context.fence("agent");
  const plan = work.options.plan ?? state.plan ?? null;
  const agent = work.options.implModel ?? context.config.agent;
  const facts = { agent, gate: work.options.gate?.command ?? null, state };
  const fixed = {
    template: templates.impl,
    issue,
    tags: work.options.tags,
    baseBranch: base.branch,
    plan,
    facts,
    fence,
  };
  const prompt = implPrompt({
    ...fixed,
    iteration: position.iteration,
    maxIterations: work.options.maxIterations,
    marker,
    reason: position.iteration === 1 ? null : position.reason,
    feedback: position.feedback,
    previousOutput: state.output,
    previousCommitReport: state.commitReport,
  });
  // The prompt refers to these files, and the agent may have removed them.
  await outputs.write(outputFiles.issue(issue.number), issueText(issue));
  await writePlan(outputs, plan);
  await outputs.write(outputFiles.baseInput, baseImplPrompt(fixed));
  await outputs.write(outputFiles.input(position.iteration), prompt);
  return prompt;
}

function incomplete(report: AgentReport, finalize: string): string {
  const refused = report.uncollected[finalize];
  if (refused !== undefined) return `${finalize} cannot be read: ${refused}`;
  if (report.outcome === "completed") return "The completion marker is missing";
  return `The agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`;
}

/**
 * Makes one more pass over a few changed files. A pass that fails, breaks a gate or touches another file is reverted, and
 * the run publishes the files that were reviewed.
 */
export async function simplifyStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { options } = work;
  const { issue, base, templates } = requireSetup(state);
  const pass = (reason: string) => conclude(context, { event: "simp_pass", reason, state, feedback: null });
  if (counterOf(position.attempts, "simplify") >= options.limits.simplifications)
    return pass(`${options.limits.simplifications} simplifications have failed, which is the limit; left as it is`);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await stageHead(context, worktree.branch);
  const files = await changedFiles(work, context, worktree);
  if (files.length === 0) return pass("There is no changed file to simplify");
  const earlier = await context.step("before-simplify", () => newestCheckpoint(work, context), {
    title: "finding the newest checkpoint",
  });

  const report = await context.agent({
    name: "simplifier",
    title: "the agent simplifies",
    role: "simplify",
    prompt: simplifyPrompt({ template: templates.simplify, issue, files, fence: context.fence("simplifier") }),
    model: options.implModel,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
  });
  const revert = async (reason: string): Promise<StageResult<ImplState>> => {
    await context.restoreFiles("undo-simplify", earlier);
    // The agent may have committed by itself, and restoring files moves no branch.
    const message = `Revert the simplification for ${issueName(issue)}\n`;
    await commitWork(context, worktree, { step: "undo-commit", message, before, at });
    return conclude(context, {
      event: "simp_fail",
      reason: `Simplification reverted: ${reason}`,
      state,
      feedback: null,
    });
  };
  if (report.outcome === "failed")
    return await revert(
      `the agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`,
    );
  const others = await context.step(
    "other-files",
    async () => {
      const changed = await worktree.branch.changedSince({ from: before, exclude: [OUTPUT_DIRECTORY] });
      return changed.map((file) => file.path).filter((path) => !files.includes(path));
    },
    { title: "listing the changed files" },
  );
  if (others.length > 0) return await revert(`it changed files that it was not given: ${others.join(", ")}`);
  const verdict = await runGates(work, context, worktree, { from: base.commit, commitAt: null });
  if (verdict.kind === "failed") return await revert(verdict.reason);
  const message = `Simplify the change for ${issueName(issue)}\n`;
  const { moved } = await commitWork(context, worktree, { step: "commit", message, before, at });
  return pass(moved ? `Simplified ${files.join(", ")}` : "Nothing could be made simpler");
}

async function changedFiles(
  work: ImplDependencies,
  context: ImplContext,
  { branch }: Worktree,
): Promise<readonly string[]> {
  const { base } = requireSetup(context.state);
  return await context.step(
    "files",
    async () => {
      const changed = await branch.changedSince({ from: base.commit, exclude: [OUTPUT_DIRECTORY] });
      const there = changed.filter((file) => file.status !== "deleted").map((file) => file.path);
      return there.slice(0, work.options.simplifyFiles);
    },
    { title: "listing the changed files" },
  );
}

export function simplifyPrompt(params: {
  readonly template: string;
  readonly issue: Issue;
  readonly files: readonly string[];
  readonly fence: Fence;
}): string {
  const { issue, files, fence } = params;
  const text = expandTemplate(params.template, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_file: outputFiles.issue(issue.number),
    files: fence.data("file names", files.map((file) => `- ${file}`).join("\n")),
  });
  return fence.prompt(text);
}

/** Longer texts lose their beginning, because agents and tools put what matters at the end. */
const SECTION_CHARACTERS = 16_000;

export interface ImplPromptParams {
  readonly template: string;
  readonly issue: Issue;
  readonly tags: readonly string[];
  readonly baseBranch: string;
  readonly iteration: number;
  readonly maxIterations: number;
  readonly marker: string;
  /** Why the run started this iteration; null in the first. */
  readonly reason: string | null;
  readonly feedback: string | null;
  readonly previousOutput: string | null;
  readonly previousCommitReport: string | null;
  readonly plan: Plan | null;
  readonly facts: TaskFacts;
  /** The fence of the agent call that gets the prompt. */
  readonly fence: Fence;
}

export function implPrompt(params: ImplPromptParams): string {
  const { fence, feedback, previousCommitReport, previousOutput } = params;
  const section = (title: string, source: string, content: string | null): string => {
    if (content === null || content.trim() === "") return "";
    return `\n\n---\n${title}\n${fence.data(source, truncateStart(content.trim(), SECTION_CHARACTERS))}\n`;
  };
  const text = expandTemplate(params.template, {
    ...fixedValues(params),
    iteration_section: `${iterationSection(params)}${unplacedPlan(params)}`,
    ci_failure_section: section("What must be fixed:", "checks and reviews", feedback),
    previous_commit_report_section: section(
      "Previous iteration summary (commit report):",
      "the agent's commit report",
      previousCommitReport,
    ),
    previous_output_section: section("Output from last iteration:", "the agent's output", previousOutput),
  });
  return fence.prompt(text);
}

/** The part of the prompt that is the same in every iteration. */
export function baseImplPrompt(
  params: Pick<ImplPromptParams, "template" | "issue" | "tags" | "baseBranch" | "plan" | "facts" | "fence">,
): string {
  const text = expandTemplate(params.template, {
    ...fixedValues(params),
    iteration_section: unplacedPlan(params),
    ci_failure_section: "",
    previous_commit_report_section: "",
    previous_output_section: "",
  });
  return params.fence.prompt(text);
}

/** A template without the placeholder gets the plan after the iteration section, so that no plan is lost. */
function unplacedPlan({ template, plan, fence }: Pick<ImplPromptParams, "template" | "plan" | "fence">): string {
  return /\{[{#]\s*plan_section\s*[}#]\}/.test(template) ? "" : planSection(plan, fence);
}

function fixedValues(
  params: Pick<ImplPromptParams, "issue" | "tags" | "baseBranch" | "plan" | "facts" | "fence">,
): Readonly<Record<string, string>> {
  return {
    issue_no: String(params.issue.number),
    issue_title: params.fence.data("issue title", params.issue.title),
    issue_file: outputFiles.issue(params.issue.number),
    finalize_file: outputFiles.finalize,
    tags: params.tags.join(", "),
    title_form: titleForm(params.facts.state.repository, params.issue.number, params.tags),
    facts_section: factsSection(params.facts, params.fence),
    plan_section: planSection(params.plan, params.fence),
    base_branch: params.baseBranch,
  };
}

/** Part of every template, including a user's own: without it an agent could not know the marker. */
function iterationSection(params: ImplPromptParams): string {
  const { iteration, marker, reason } = params;
  return [
    `Current iteration: ${iteration} of at most ${params.maxIterations}.`,
    ...(reason === null ? [] : [`Why there is another one: ${params.fence.data("checks and reviews", reason)}`]),
    `Write ${outputFiles.commitReport(iteration)}: what you did in this iteration, as a commit message.`,
    `The completion marker of this iteration, for ${outputFiles.finalize}, is the line:`,
    marker,
  ].join("\n");
}

/**
 * The line an agent writes when it is done. It names the iteration, the run and the stage attempt. A marker of another
 * iteration, a killed attempt or another run of the same issue therefore never matches.
 */
export function completionMarker(params: {
  readonly issue: number;
  readonly iteration: number;
  readonly run: string;
  readonly stageAttempt: number;
}): string {
  const what = params.issue === NO_ISSUE ? "Task" : `Issue ${params.issue}`;
  return `${what} resolved (iteration ${params.iteration}, ${params.run}.${params.stageAttempt})`;
}

/**
 * Whether the agent calls the issue done. The completion marker is for agents that follow the prompt. A plain command
 * is done when it exits with 0, and the gates and the review decide about its work.
 */
export function isRoundDone(
  report: Pick<AgentReport, "outcome" | "agent">,
  params: { readonly finalize: string | null; readonly marker: string; readonly named: string | null },
): boolean {
  if (isComplete(params.finalize, params.marker)) return true;
  const { provider } = splitAgent(report.agent ?? params.named ?? "");
  return provider === "command" && report.outcome === "completed";
}

/** The marker must be a line of its own: "NOT: Issue 42 resolved …" or a marker inside a sentence does not count. */
export function isComplete(finalize: string | null, marker: string): boolean {
  return finalize !== null && lines(finalize).some((line) => line.trim() === marker);
}

/**
 * Splits the finalize file into the pull request's title (the first non-empty line) and body. Removes every marker
 * line, current or stale.
 */
export function parseFinalize(text: string): PullRequestProposal {
  const kept = lines(text).filter((line) => !ANY_MARKER.test(line));
  const first = kept.findIndex((line) => line.trim() !== "");
  if (first === -1) return { title: null, body: "" };
  return {
    title: (kept[first] ?? "").trim(),
    body: kept
      .slice(first + 1)
      .join("\n")
      .trim(),
  };
}

const ANY_MARKER = /^\s*(?:Issue #?\d+|Task) resolved(?:\s*\(iteration \d+, [a-z0-9-]+\.\d+\))?\.?\s*$/;

function lines(text: string): readonly string[] {
  return text.split(/\r?\n/);
}

const MESSAGE_CHARACTERS = 20_000;

/** Returns the agent's commit report, or a default message if it wrote none. */
function commitMessage(params: {
  readonly report: string | null;
  readonly issue: Issue;
  readonly iteration: number;
}): string {
  // Git and its readers end a commit message at a NUL.
  const report = (params.report ?? "").replaceAll("\0", "").trim().slice(0, MESSAGE_CHARACTERS).toWellFormed();
  if (report !== "") return `${report}\n`;
  return `${issueHeading(params.issue)}, iteration ${params.iteration}: ${params.issue.title.trim()}\n`;
}

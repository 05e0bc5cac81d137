import type { StageResult } from "../../../core/position/workflow.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { commitMessage } from "../commit-message.ts";
import { commitWork } from "../../commit-work.ts";
import { completionMarker, isComplete, parseFinalize } from "../completion-marker.ts";
import { runGates } from "../run-gates.ts";
import { conclude } from "../history.ts";
import { keepEnd } from "../../keep-end.ts";
import { baseImplPrompt, implPrompt } from "../impl-prompt.ts";
import { issueText } from "../../issue-text.ts";
import { outputFiles } from "../output-files.ts";
import { requireSetup } from "../state.ts";
import type { ImplState, Progress } from "../state.ts";
import { OUTPUT_DIRECTORY, openWorktree, stageTime } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";

const KEPT_CHARACTERS = 16_000;

/** One iteration: the agent works, what it did is committed, and what it calls finished goes through the gates. */
export async function implStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { issue, base } = requireSetup(state);
  const { iteration } = position;
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await context.step("head", () => worktree.branch.head());
  const marker = completionMarker({
    issue: issue.number,
    iteration,
    run: context.run.id,
    visit: position.visit.number,
  });
  const prompt = await writePrompts(work, context, marker);

  const files = { finalize: outputFiles.finalize, report: outputFiles.commitReport(iteration) };
  const report = await context.agent({
    name: "agent",
    role: "impl",
    prompt,
    model: work.options.implModel,
    yolo: work.options.yolo,
    ...(work.options.agentTimeoutMs === null ? {} : { timeoutMs: work.options.agentTimeoutMs }),
    collect: [files.finalize, files.report],
    env: {
      HOLDFAST_ISSUE: String(issue.number),
      HOLDFAST_COMPLETION: marker,
      HOLDFAST_FINALIZE_FILE: files.finalize,
      HOLDFAST_COMMIT_REPORT: files.report,
    },
  });
  await worktree.outputs.write(outputFiles.output, report.text);
  const collected = (path: string): string | null => report.collected[path] ?? null;
  const commitReport = collected(files.report);
  const { moved } = await commitWork(context, worktree, {
    step: "commit",
    message: commitMessage({ report: commitReport, issue, iteration }),
    before,
    at,
  });
  const next: ImplState = {
    ...state,
    output: keepEnd(report.text, KEPT_CHARACTERS),
    commitReport: commitReport === null ? null : keepEnd(commitReport, KEPT_CHARACTERS),
  };
  const finalize = collected(files.finalize);
  if (!isComplete(finalize, marker)) {
    const progress: Progress = moved || report.changed === true ? "changed" : "none";
    return conclude(context, {
      event: "impl_not_done",
      reason: incomplete(report, files.finalize),
      state: { ...next, progress },
    });
  }

  const changed = await context.step("changed", async () => {
    const files = await worktree.branch.changedSince({ from: base.commit, exclude: [OUTPUT_DIRECTORY] });
    return files.length;
  });
  if (changed === 0) return await emptyResult(context, next);

  const done: ImplState = { ...next, progress: "complete", finalize: parseFinalize(finalize ?? "") };
  const verdict = await runGates(work, context, worktree, { from: base.commit, commitAt: at });
  if (verdict.kind === "passed")
    return conclude(context, {
      event: "impl_done",
      reason: `Iteration ${iteration} is complete`,
      state: { ...done, failing: null },
      feedback: null,
    });
  return conclude(context, {
    // A command that says no is work not done yet; only files that do not parse count towards the parse limit.
    event: verdict.gate === "parse" ? "parse_fail" : "impl_not_done",
    reason: verdict.reason,
    state: { ...done, failing: verdict.failing },
    feedback: verdict.failing.detail,
  });
}

/** "Done" without any change is not done: nothing of it is reviewed. The second time in a row the user is asked. */
async function emptyResult(context: ImplContext, state: ImplState): Promise<StageResult<ImplState>> {
  const { issue, base } = requireSetup(state);
  const reason = `The agent called issue #${issue.number} done, but no file differs from ${base.branch}`;
  if (context.state.progress === "empty") {
    const answer = await context.decide({
      name: "empty-change",
      question: `${reason}, for the second time in a row. Let it try again, or stop?`,
      options: ["again", "stop"],
    });
    if (answer === "stop") return conclude(context, { event: "fatal", reason: `Stopped by you: ${reason}`, state });
  }
  const feedback = `${reason}. Make the change that the issue asks for in the files of this directory, then write the completion marker again.`;
  return conclude(context, { event: "impl_not_done", reason, state: { ...state, progress: "empty" }, feedback });
}

async function writePrompts(work: ImplWork, context: ImplContext, marker: string): Promise<string> {
  const { position, state } = context;
  const { issue, base, templates } = requireSetup(state);
  const { outputs } = await openWorktree(work, context);
  const fence = context.fence("agent");
  const fixed = { template: templates.impl, issue, tags: work.options.tags, baseBranch: base.branch, fence };
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
  // The agent may have removed it, and it is where the prompt points to.
  await outputs.write(outputFiles.issue(issue.number), issueText(issue));
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

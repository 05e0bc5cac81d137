import { readAnswer } from "../../../core/ralph/answer.ts";
import { planUnits } from "../../../core/ralph/units.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { commitWork } from "../../commit-work.ts";
import { issueText } from "../../issue-text.ts";
import { OUTPUT_DIRECTORY, openWorktree, stageTime } from "../../worktree.ts";
import type { Worktree } from "../../worktree.ts";
import { iteratePrompt } from "../iterate-prompt.ts";
import { outputFiles } from "../output-files.ts";
import type { LoopState } from "../state.ts";
import { tell, unitAtHand } from "../work.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** One turn of the agent, in a conversation of its own: what it must know of the turns before is in its prompt. What it did is committed. */
export async function iterateStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const { options } = work;
  const { iteration } = context.position;
  const unit = unitAtHand(work, context);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await context.step("head", () => worktree.branch.head());
  const { issue } = context.inputs;
  const prompt = iteratePrompt(options, context);
  // The agent may have removed it, and it is where the prompt points to.
  if (issue !== null) await worktree.outputs.write(outputFiles.issue(issue.number), issueText(issue));
  // Once it has answered, what it was asked cannot be told from the state any more.
  if (context.state.answer?.number !== iteration) await worktree.outputs.write(outputFiles.prompt(iteration), prompt);

  const report = await context.agent({
    name: "agent",
    role: "iterate",
    prompt,
    model: options.model,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
    env: {
      HOLDFAST_UNIT: unit.name,
      HOLDFAST_UNTIL: unit.checks.map(({ command }) => command).join(" && "),
      HOLDFAST_MAX_ITERATIONS: String(options.maxIterations),
      ...(issue === null ? {} : { HOLDFAST_ISSUE: String(issue.number) }),
    },
  });
  const { head } = await commitWork(context, worktree, {
    step: "commit",
    message: messageOf({ iteration, task: issue === null ? options.task : `#${issue.number} ${issue.title}`, report }),
    before,
    at,
  });
  const changed = await filesChanged(context, worktree, { before, head });
  const answer = readAnswer({
    number: iteration,
    unit: context.state.unit,
    units: planUnits(options),
    report,
    filesChanged: changed.files,
    tree: changed.tree,
  });
  await tell(context, { kind: "answered", answer });
  return { event: "iterated", reason: reasonOf(iteration, report, changed.files), feedback: null };
}

async function filesChanged(
  context: LoopContext,
  { branch }: Worktree,
  { before, head }: { readonly before: string; readonly head: string },
): Promise<{ readonly files: number; readonly tree: string }> {
  return await context.step("changed", async () => {
    const files = await branch.changedSince({ from: before, exclude: [OUTPUT_DIRECTORY] });
    return { files: files.length, tree: await branch.treeOf(head) };
  });
}

const SUBJECT = 72;

function messageOf(params: {
  readonly iteration: number;
  readonly task: string;
  readonly report: AgentReport;
}): string {
  // A NUL ends a commit message early for every reader of it.
  const clean = (text: string): string => text.replaceAll("\0", "").toWellFormed().trim();
  const subject = clean(params.task).replaceAll(/\s+/g, " ");
  const cut = subject.length > SUBJECT ? `${subject.slice(0, SUBJECT).toWellFormed()}…` : subject;
  const said = clean(params.report.text).slice(0, 2000).toWellFormed();
  return `Iteration ${params.iteration}: ${cut}\n${said === "" ? "" : `\n${said}\n`}`;
}

function reasonOf(iteration: number, report: AgentReport, files: number): string {
  const changed = files === 0 ? "no file changed" : files === 1 ? "1 file changed" : `${files} files changed`;
  if (report.outcome === "completed") return `Iteration ${iteration}: ${changed}`;
  return `Iteration ${iteration}: the agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}; ${changed}`;
}

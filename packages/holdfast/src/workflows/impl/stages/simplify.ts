import { counterOf } from "../../../core/position/counters.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { commitWork } from "../../commit-work.ts";
import { runGates } from "../run-gates.ts";
import { conclude } from "../history.ts";
import { outputFiles } from "../output-files.ts";
import { expandTemplate } from "../prompt-template.ts";
import { requireSetup } from "../state.ts";
import type { ImplState } from "../state.ts";
import { OUTPUT_DIRECTORY, openWorktree, stageTime } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";
import type { Worktree } from "../../worktree.ts";

/** One more pass over a few of the changed files. It must leave the gates green; what breaks them goes back to implementation. */
export async function simplifyStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { options } = work;
  const { issue, base } = requireSetup(state);
  const pass = (reason: string) => conclude(context, { event: "simp_pass", reason, state, feedback: null });
  if (counterOf(position.attempts, "simplify") >= options.limits.simplifications)
    return pass(`${options.limits.simplifications} simplifications have failed, which is the limit; left as it is`);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await context.step("head", () => worktree.branch.head());
  const files = await changedFiles(work, context, worktree);
  if (files.length === 0) return pass("There is no changed file to simplify");

  const report = await context.agent({
    name: "simplifier",
    role: "simplify",
    prompt: simplifyPrompt(context, files),
    model: options.implModel,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
  });
  const fail = (reason: string, feedback: string, failing: ImplState["failing"]) =>
    conclude(context, { event: "simp_fail", reason, state: { ...state, failing }, feedback });
  if (report.outcome === "failed") {
    const reason = `The simplifying agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`;
    return fail(reason, `${reason}. Look at what it left in ${files.join(", ")}.`, state.failing);
  }
  const verdict = await runGates(work, context, worktree, { from: base.commit, commitAt: null });
  if (verdict.kind === "failed")
    return fail(verdict.reason, `After a simplification: ${verdict.failing.detail}`, verdict.failing);
  const message = `Simplify the change for issue #${issue.number}\n`;
  const { moved } = await commitWork(context, worktree, { step: "commit", message, before, at });
  return pass(moved ? `Simplified ${files.join(", ")}` : "Nothing could be made simpler");
}

async function changedFiles(work: ImplWork, context: ImplContext, { branch }: Worktree): Promise<readonly string[]> {
  const { base } = requireSetup(context.state);
  return await context.step("files", async () => {
    const changed = await branch.changedSince({ from: base.commit, exclude: [OUTPUT_DIRECTORY] });
    const there = changed.filter((file) => file.status !== "deleted").map((file) => file.path);
    return there.slice(0, work.options.simplifyFiles);
  });
}

function simplifyPrompt(context: ImplContext, files: readonly string[]): string {
  const { issue, templates } = requireSetup(context.state);
  const fence = context.fence("simplifier");
  const text = expandTemplate(templates.simplify, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_file: outputFiles.issue(issue.number),
    files: fence.data("file names", files.map((file) => `- ${file}`).join("\n")),
  });
  return fence.prompt(text);
}

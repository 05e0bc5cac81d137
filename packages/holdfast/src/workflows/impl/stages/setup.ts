import { HoldfastError } from "../../../core/error.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { findBase } from "../../publish/find-base.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { conclude } from "../history.ts";
import { issueText } from "../../issue-text.ts";
import { loadTemplates } from "../load-templates.ts";
import { outputFiles } from "../output-files.ts";
import type { Issue, ImplState } from "../state.ts";
import { syncBranch } from "../../publish/sync-branch.ts";
import { OUTPUT_DIRECTORY, openWorktree, requireForge, stageTime } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";

/** The issue, a worktree and branch for it, the base it builds on, and the prompts: all fixed from here on. */
export async function setupStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const forge = await requireForge(work, context);
  const issue = await readIssue(work, context);
  const stop = (reason: string) => conclude(context, { event: "fatal", reason, state: { ...context.state, issue } });
  if (issue === null) return stop(`Issue ${issueNumber(context)} is not at ${forge.name} (${forge.location})`);

  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const named = work.options.baseBranch;
  const found = await askForge(context, () =>
    context.step("base", () => findBase({ branch: worktree.branch, forge, named })),
  );
  if (found.kind !== "found") return stop(found.reason);
  const synced = await syncBranch(context, worktree, { base: found.base, at });
  if (synced.kind !== "synced") return stop(synced.reason);

  await worktree.outputs.hide(OUTPUT_DIRECTORY);
  await worktree.outputs.write(outputFiles.issue(issue.number), issueText(issue));
  const templates = await context.step("templates", async () => ({
    ...(await loadTemplates(work.options.prompts, worktree.outputs)),
  }));
  const state: ImplState = { ...context.state, issue, base: found.base, templates, pushed: synced.pushed };
  const reason = `Issue #${issue.number} is ready to be worked on, on top of ${found.base.branch}`;
  const { commit } = found.base;
  return { ...conclude(context, { event: "setup_done", reason, state }), inputs: { issue, base: commit } };
}

function issueNumber({ run }: ImplContext): number {
  if (run.work.kind === "issue") return run.work.number;
  throw new HoldfastError({
    code: "USAGE",
    message: `Run ${run.id} has no issue, and the impl workflow carries an issue to a pull request`,
    hint: "Start it with an issue number: `holdfast run 42`.",
  });
}

/** The text the run began with. Fetched once: a change at the forge is for a person to decide on, never silently taken. */
async function readIssue(work: ImplWork, context: ImplContext): Promise<Issue | null> {
  const number = issueNumber(context);
  const known = context.inputs.issue;
  if (known !== null && known.number === number) return { ...known };
  const forge = await requireForge(work, context);
  return await askForge(context, () =>
    context.step("issue", async () => {
      const issue = await forge.getIssue(number);
      return issue === null || issue.number !== number ? null : { ...issue };
    }),
  );
}
